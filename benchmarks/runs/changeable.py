"""Keys of a configuration that a run may change when it goes on."""

from __future__ import annotations

from typing import Any

from llm_decpomdp.algorithms.rollout_workers.options import ClusterOptions
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.keys import KEYS, value_of
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.options import names

CHANGEABLE = (
    "algorithm.num_train_epochs",
    "algorithm.max_updates",
    *(f"cluster.{key}" for key in names(ClusterOptions)),
    "learner.fsdp_size",
    "learner.reduce_once",
    "learner.gather_for_generation",
    "learner.process_timeout",
    "inference.urls",
    "inference.python",
    "inference.flags",
    "inference.timeout",
    "inference.start_timeout",
    "inference.max_restarts",
    "inference.max_mismatch",
    "output.checkpoint_every",
    "output.checkpoint_minutes",
    "output.keep_checkpoints",
    "output.report_every",
    "output.save_final_model",
    "model.name",
    "model.max_prompt_tokens",
    "model.on_long_prompt",
)
"""Keys that a run may change when it goes on: length, shards, workers, servers, what it saves, long prompts.
The weights below a name are compared with those of the checkpoint, so that only their place may change."""


OF_POLICIES = ("name", "max_prompt_tokens", "on_long_prompt", "sample_on")
"""Keys of single policies that it may change: `policies.<name>.on_long_prompt`."""


def refuse_other_changes(before: Config, now: Config) -> None:
    """Refuse configurations that differ by more than a resumed run may change.

    Raises:
        ConfigError: If a key was changed that is not in `CHANGEABLE` or `OF_POLICIES`.
    """
    changes = [key for key in KEYS if value_of(before, key) != value_of(now, key)]
    keys = [key for key in changes if key not in CHANGEABLE and key != "policies"]
    old, new = value_of(before, "policies"), value_of(now, "policies")
    for name in dict.fromkeys([*old, *new]):
        if _lasting_keys(old.get(name)) != _lasting_keys(new.get(name)):
            keys.append(f"policies.{name}")
    if keys:
        raise ConfigError(
            f"a resumed run keeps its {', '.join(keys)}; it may change {', '.join(CHANGEABLE)}, and of a "
            f"policy {', '.join(OF_POLICIES)}. To change more, begin a new run with its team: --from FOLDER"
        )


def _lasting_keys(policy: Any) -> dict[str, Any]:
    declared = policy or {}
    # The weights below the name of a local model are compared later; other names stand for themselves.
    keeps_name = declared.get("kind", "model") != "model"
    free = [key for key in OF_POLICIES if not (keeps_name and key == "name")]
    return {key: value for key, value in declared.items() if key not in free}
