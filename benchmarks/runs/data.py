"""The data of a run: the environments of both splits, with the same problems whenever the run goes on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from llm_decpomdp.benchmarks.config.errors import RunError
from llm_decpomdp.benchmarks.config.load import build_env
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.loading import AT_A_COMMIT, PACKAGE
from llm_decpomdp.interfaces import TaskSet
from llm_decpomdp.registry import accepts_argument

Manifest = Mapping[str, Mapping[str, Any]]
"""`TaskSet.describe` of the parts `train` and `eval`, as a run's manifest holds it."""

logger = logging.getLogger(__name__)


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
    return build_env(partial(config.make_train_env, commit_of(before, "train")))


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
    source = commit_of(before, "eval") or same_source(config, train_env)
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
    return source_of(env.tasks.describe()) if sources == (None, None) else None


def source_of(data: Mapping[str, Any]) -> str:
    """Return the `source` that loads data again, of the hub's the same commit; `data` is of `TaskSet.describe`."""
    source: str = data["source"]
    return commit_of({"": data}, "") or ("bundled" if source == PACKAGE else source)


def commit_of(data: Manifest | None, part: str) -> str | None:
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
    return f"the {part} data differ: {_in_words(before)} before, {_in_words(now)} now"


def _in_words(data: Mapping[str, Any]) -> str:
    """Name data by all that a manifest says of them."""
    where = [data.get("source"), data.get("revision"), data.get("split")]
    about = f"{data.get('rows', '?')} rows of {data.get('name', '?')}"
    return f"{about} ({', '.join(filter(None, where))}; fingerprint {data['fingerprint']})"
