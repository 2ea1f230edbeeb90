"""The data of a run: environments and problems, stored pairs, comparison with a manifest, and the schedule."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from llm_decpomdp.algorithms import Rollout, Start
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError, raise_config_errors
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.loading import AT_A_COMMIT, PACKAGE
from llm_decpomdp.interfaces import Task, TaskSet
from llm_decpomdp.policy import Team, distinct_policies
from llm_decpomdp.registry import accepts_argument, make_family
from llm_decpomdp.seeding import stream
from llm_decpomdp.utils.storage import RunFolder

if TYPE_CHECKING:
    from llm_decpomdp.benchmarks.runs.setup import ResolvedRun

logger = logging.getLogger(__name__)

T = TypeVar("T")

Batches = list[list[Start]]
"""The starts of each update."""

Manifest = Mapping[str, Mapping[str, Any]]
"""`TaskSet.describe` of the parts `train` and `eval`, as a run's manifest holds it."""


def load_env(
    env_id: str, source: str = "auto", split: str | None = None, **arguments: Any
) -> DecPOMDPEnv:
    """Build an environment with the problems of a source and a split, and other arguments, and load the problems.

    Raises:
        ConfigError: If an argument is not valid.
        RunError: If the data cannot be loaded.
    """
    arguments |= {} if source == "auto" else {"source": source}
    arguments |= {"split": split} if split else {}
    try:
        with raise_config_errors():
            env = make_family(env_id, **arguments)
            len(env.tasks)  # loads the data
    except OSError as error:
        raise RunError(f"cannot load the data of {env_id}: {error}") from error
    return env


def check_tasks(config: Config, train: TaskSet, held_out: TaskSet) -> None:
    """Check that a `task_id` names one problem; warn of held-out problems that are trained on.

    Raises:
        RunError: If a `task_id` names two problems.
    """
    common = train.positions.keys() & held_out.positions.keys()
    for task_id in common:
        # The place in a split is no part of a problem.
        first, second = (replace(tasks.find(task_id), index=0) for tasks in (train, held_out))
        # Two files may number their problems alike; results by task would then mix two problems.
        if first != second:
            raise RunError(
                f"the task {task_id!r} of {train.source} is another problem than that of {held_out.source}: give "
                "every problem a task_id of its own"
            )
    if common:
        remedy = (
            f"let dataset.train_split={train.split} and dataset.eval_split={held_out.split} be slices that do not "
            "overlap, such as [20%:] and [:20%]"
        )
        if not accepts_argument(config.env.id, "split"):
            remedy = f"{config.env.id} takes no split; a family of your own does with an argument `split`"
        logger.warning(
            "%d of the %d held-out tasks are trained on too, so that what is measured on them says little "
            "about other tasks: %s",
            *(len(common), len(held_out), remedy),
        )


def same_source(config: Config, env: DecPOMDPEnv) -> str | None:
    """Return the `source` that loads another split from the place where the data of an environment was found.

    `None` if the configuration has a source for each split.
    """
    sources = config.dataset.train_source, config.dataset.eval_source
    return find_source(env.tasks.describe()) if sources == (None, None) else None


def find_source(data: Mapping[str, Any]) -> str:
    """Return the `source` that loads data again, of the hub's the same commit; `data` is of `TaskSet.describe`."""
    source: str = data["source"]
    return _commit_source(data) or ("bundled" if source == PACKAGE else source)


def pin_commit(data: Manifest | None, part: str) -> str | None:
    """Return the `source` that loads a part of the hub's data as it was; `None` where it is not the hub's."""
    return _commit_source((data or {}).get(part, {}))


def _commit_source(data: Mapping[str, Any]) -> str | None:
    # Only the hub has commits; a file may have changed, which its fingerprint tells.
    pinned = data.get("source") == "hub" and data.get("revision")
    return f"{AT_A_COMMIT}{data['revision']}" if pinned else None


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


def skip_long_prompts(run: ResolvedRun, team: Team) -> ResolvedRun:
    """Say how policies read prompts, and leave out the problems whose first prompts are too long for them.

    Raises:
        RunError: If a first prompt is too long for a policy that skips none, or no problem is left.
    """
    from llm_decpomdp.agents import CausalLM
    from llm_decpomdp.algorithms.rollouts.checks import (
        describe_prompts,
        long_first_prompts,
        require_short,
    )

    for agents, policy in distinct_policies(team).items():
        if isinstance(policy, CausalLM):
            logger.info("%s: %s", agents, policy.encoder.describe())
    starts = _starts_longest_first(run.train_env.tasks.tasks)
    # Checked before the first update: later prompts are longer only by feedback.
    prompts = long_first_prompts(run.train_env, team, starts, "skip")
    skipped = list(dict.fromkeys(str(prompt.start.task_id) for prompt in prompts))
    if skipped:
        logger.warning(
            "%d of %d training problems are left out, for first prompts are too long: %s",
            *(len(skipped), len(starts), describe_prompts(prompts)),
        )
    if len(skipped) == len(starts):
        raise RunError("no problem is left to train on: make room for longer prompts")
    if skipped:
        run = run.skip_tasks(skipped)
    further = run.problems if run.config.algorithm.rollout.max_resample_rounds else []
    in_batches = {start for batch in (*run.batches, further) for start in batch}
    held_out = _starts_longest_first(run.eval_env.tasks.tasks[: run.config.evaluation.num_tasks])
    try:
        require_short(run.train_env, team, [start for start in starts if start in in_batches])
        require_short(run.eval_env, team, held_out)
    except ValueError as error:
        raise RunError(str(error)) from error
    # Evaluations skip no problem, so that all of them measure the same ones.
    if unread := long_first_prompts(run.eval_env, team, held_out, "skip"):
        logger.warning(
            "first prompts of held-out problems are too long, and agents say nothing to them: %s",
            describe_prompts(unread),
        )
    return run


def _starts_longest_first(tasks: Iterable[Task]) -> list[Start]:
    """Return the starts of tasks, most text first, as the longest prompts are found early."""
    ordered = sorted(tasks, key=lambda task: len(repr(task)), reverse=True)
    return [Start(task_id=task.task_id) for task in ordered]


def load_envs(config: Config, before: Manifest | None = None) -> tuple[DecPOMDPEnv, DecPOMDPEnv]:
    """Build the environments of training and evaluation, and load their data from the same source.

    Raises:
        ConfigError: If an environment refuses its arguments.
        RunError: If data cannot be loaded, or one `task_id` names two problems.
    """
    train_env = build_train_env(config, before)
    return train_env, load_eval_env(config, train_env, before)


def build_train_env(config: Config, before: Manifest | None = None) -> DecPOMDPEnv:
    """Build the environment of training, without its data; raise a `ConfigError` if it refuses its arguments."""
    with raise_config_errors():
        return config.make_train_env(pin_commit(before, "train"))


def load_eval_env(
    config: Config, train_env: DecPOMDPEnv, before: Manifest | None = None
) -> DecPOMDPEnv:
    """Load the data of training, and build the environment of evaluation with data from the same source.

    Raises the errors of `load_envs`.
    """
    train = _load_tasks(config, train_env, "train")
    source = pin_commit(before, "eval") or same_source(config, train_env)
    with raise_config_errors():
        eval_env = config.make_eval_env(source)
    check_tasks(config, train, _load_tasks(config, eval_env, "eval"))
    return eval_env


def _load_tasks(config: Config, env: DecPOMDPEnv, part: str) -> TaskSet:
    try:
        return env.tasks
    except (ValueError, OSError) as error:
        split = getattr(config.dataset, f"{part}_split")
        data = f"the data of {config.env.id} (dataset.{part}_split={split})"
        raise RunError(f"cannot load {data}: {error}") from error


# The schedule


def plan_batches(
    config: Config, env: DecPOMDPEnv, pairs: Sequence[Rollout], skipped: Collection[str] = ()
) -> Batches:
    """Schedule the training problems of each update without skipped ones, or the stored pairs.

    Raises:
        ConfigError: If all problems are reserved for the warm start.
    """
    if pairs:
        return [[pair.start for pair in update] for update in arrange(config, pairs)]
    tasks = [task.task_id for task in env.tasks.tasks]
    reserved = reserved_tasks(config, env)
    if len(reserved) == len(tasks):
        raise ConfigError(
            f"warm_start.share={config.warm_start.share:g} of {len(tasks)} problems, rounded up, is all of "
            "them: warm_start.disjoint leaves reinforcement none; lower the share, or take more problems"
        )
    return schedule(config, tasks, {*skipped, *reserved})


def schedule(config: Config, tasks: Sequence[str], left_out: Collection[str] = ()) -> Batches:
    """Return the starts of each update: every task once an epoch, in an order that the seed decides.

    The last update of an epoch may be smaller. Leaving tasks out does not change the order of the others.
    """
    starts = [Start(task_id=task) for task in tasks]
    return arrange(config, starts, [start for start in starts if start.task_id in left_out])


def arrange(config: Config, items: Sequence[T], left_out: Collection[T] = ()) -> list[list[T]]:
    """Return the items of each update: each item once an epoch, in an order that the seed decides."""
    size, batches = config.algorithm.train_batch_size, []
    for epoch in range(config.algorithm.num_train_epochs):
        order = stream(config.seed, "schedule", epoch).permutation(len(items))
        shuffled = [items[i] for i in order if items[i] not in left_out]
        batches += [shuffled[first : first + size] for first in range(0, len(shuffled), size)]
    return batches[: config.algorithm.max_updates]


def reserved_tasks(config: Config, env: DecPOMDPEnv) -> list[str]:
    """Return the training problems that only the warm start may use."""
    if not config.warm_start.disjoint:
        return []
    from llm_decpomdp.algorithms.training.sft_data import draw_share

    tasks = [task.task_id for task in env.tasks.tasks]
    return draw_share(tasks, config.warm_start.share, config.seed)
