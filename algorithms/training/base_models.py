"""The frozen models of a run. Checkpoints do not contain them, and they must be the same when the run goes on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from llm_decpomdp.policy import Policy, policy_attribute

BaseModels = Mapping[str, Mapping[str, str]]
"""For each policy the `name` and `weights` (a digest) of its model, and the `revision` of a model on the hub."""

logger = logging.getLogger(__name__)


def base_models(policies: Mapping[str, Policy]) -> dict[str, dict[str, str]]:
    """Describe the frozen model of each policy that has one, by policy."""
    return {
        name: dict(model)
        for name, policy in policies.items()
        if (model := policy_attribute(policy, "base_model"))
    }


def require_same_models(before: BaseModels | None, now: BaseModels, checkpoint: Path) -> None:
    """Check that the frozen models have the same weights as at the start of a run. Their names may differ.

    Args:
        before: Frozen models in the checkpoint; `None` if an older version without them wrote it.
        now: Frozen models that were loaded.
        checkpoint: The checkpoint, for the message.

    Raises:
        ValueError: If a model has other weights.
    """
    if before is None:
        if now:
            logger.warning("%s has no digests of its frozen models: not compared", checkpoint)
        return
    for policy in (policy for policy in before if policy in now):
        old, new = before[policy], now[policy]
        if old["weights"] == new["weights"]:
            continue
        if "revision" in old:
            known = f"revision {old['revision']} of {old['name']!r}"
            remedy = (
                f"get it with hf download {old['name']} --revision {old['revision']} --local-dir FOLDER, and "
                "resume with --override model.name=FOLDER (or policies.<name>.name)"
            )
        else:
            known = f"{old['name']!r} (digest {old['weights'][:12]})"
            remedy = (
                "restore its files, or name a folder that has them: --override model.name=FOLDER (or "
                "policies.<name>.name)"
            )
        is_now = new.get("revision") or f"digest {new['weights'][:12]}"
        raise ValueError(
            f"{checkpoint} cannot go on: the model {new['name']!r} below the policy of {policy} has other weights "
            f"({is_now}) than at the start of the run, when it was {known}; {remedy}"
        )
