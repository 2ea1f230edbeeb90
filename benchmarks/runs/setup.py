"""The setup of a run: environments, team, options and the schedule of starts, before any model is loaded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from llm_decpomdp.agents.saved_team import read_manifest
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.training.sft_data import (
    Demonstration,
    draw_share,
    read_demonstrations,
    reference_demonstrations,
)
from llm_decpomdp.algorithms.training.trainer_options import GOLD, PASSES, TrainerOptions
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.load import build_env, fit
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.config.teams import TeamSpec, check_trainable, team_source
from llm_decpomdp.benchmarks.config.trackers import require_packages
from llm_decpomdp.benchmarks.runs.manifest import Manifest, find_source, pin_commit
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.interfaces import Task, TaskSet
from llm_decpomdp.registry import accepts_argument
from llm_decpomdp.seeding import stream

logger = logging.getLogger(__name__)

T = TypeVar("T")

Batches = list[list[Start]]


@dataclass(frozen=True)
class ResolvedRun:
    """A checked configuration, with everything that it declares except the models."""

    config: Config
    train_env: DecPOMDPEnv
    eval_env: DecPOMDPEnv
    team: TeamSpec
    learner: LearnerOptions
    trainer: TrainerOptions
    batches: Batches
    """Starts of each update, or the starts of the stored pairs."""
    eval_starts: list[Start]
    skipped: Sequence[str] = ()
    """Training problems that are in no batch because a first prompt is too long."""
    pairs: Sequence[Rollout] = ()
    """Stored pairs, if the run learns from these and samples nothing."""

    @property
    def problems(self) -> list[Start]:
        """Starts of all training problems that reinforcement learning may sample."""
        left_out = {*self.skipped, *_reserved_tasks(self.config, self.train_env)}
        tasks = [task.task_id for task in self.train_env.tasks.tasks]
        return [Start(task_id=task) for task in tasks if task not in left_out]

    @property
    def sampled_problems(self) -> list[Start]:
        """Starts of the problems that expert iteration samples: its share, without the skipped ones."""
        tasks = [task.task_id for task in self.train_env.tasks.tasks]
        share = draw_share(tasks, self.config.warm_start.share, self.config.seed)
        return [Start(task_id=task) for task in share if task not in self.skipped]

    def demonstrations(self) -> list[Demonstration] | None:
        """Return the demonstrations of the warm start; none if the team samples its own, `None` without one.

        Raises:
            ConfigError: If there are none, or a file has another form.
        """
        options, specs = self.config.warm_start, self.team.policies
        if options.source is None:
            return None
        if options.source == PASSES:
            return []
        learning = [a for a, name in self.team.agents.items() if specs[name].can_be_trained]
        try:
            if options.source != GOLD:
                lines = read_demonstrations(Path(options.source), self.train_env.possible_agents)
                return draw_share(lines, options.share, self.config.seed)
            starts = [Start(task_id=task.task_id) for task in self.train_env.tasks.tasks]
            share = draw_share(starts, options.share, self.config.seed)
            return reference_demonstrations(self.train_env, share, learning)
        except ValueError as error:
            raise ConfigError(f"warm_start.source: {error}") from None

    def identify_inputs(self) -> dict[str, Any]:
        """Identify what the run reads besides its problems, so that a change is found when it goes on."""
        inputs = team_source(self.config).identify(self.team)
        if self.pairs:
            from llm_decpomdp.algorithms.preferences.stored import identify_pairs

            source = Path(str(self.config.algorithm.pairs_source))
            inputs["pairs"] = identify_pairs(source, len(self.pairs))
        return inputs

    def skip_tasks(self, skipped: Sequence[str]) -> ResolvedRun:
        """Return the run without some of its training problems."""
        batches = plan_batches(self.config, self.train_env, self.pairs, skipped)
        learner = replace(self.learner, total_updates=len(batches))
        return replace(self, skipped=skipped, batches=batches, learner=learner)


def resolve(
    config: Config,
    before: Manifest | None = None,
    edit: Callable[[Config, Sequence[str]], Config] | None = None,
) -> ResolvedRun:
    """Check a configuration, build its environments and load their data; no model is loaded.

    Args:
        config: The configuration, checked or not.
        before: The data in the manifest of an existing run, whose commits on the hub are loaded again.
        edit: Changes the configuration once the agents of the environment are known.

    Raises:
        ConfigError: If a value is out of range or does not fit the others, no policy can be trained, or the
            package of a tracker is missing.
        RunError: If the data cannot be loaded, or there is nothing to train on.
    """
    scores = config.algorithm.reward_model
    scorer = None if scores is None else scores.reward_model
    if scorer is not None and not Path(scorer).is_file():
        raise ConfigError(
            f"algorithm.reward_model.path: there is no file {scorer}; `reward-model` writes it"
        )
    train_env = _build_train_env(config, before)
    if edit is not None:
        config = edit(config, train_env.possible_agents)
    # Everything that needs no data is checked first: loading data may take minutes.
    config, team, learner = fit(config, train_env)
    _check_opponent(config.algorithm.named_comparator, train_env.possible_agents)
    team_source(config).check(team)
    check_trainable(team.policies)
    try:
        trainer_options(config)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if config.output.trackers:
        require_packages(config.output.trackers)
    eval_env = _load_eval_env(config, train_env, before)
    held_out = eval_env.tasks.tasks[: config.evaluation.num_tasks]
    try:
        pairs = _read_pairs(config, team)
        batches = plan_batches(config, train_env, pairs)
        return ResolvedRun(
            config=config,
            train_env=train_env,
            eval_env=eval_env,
            team=team,
            # Schedules of the learner fall to the end of the run.
            learner=replace(learner, total_updates=len(batches)),
            trainer=trainer_options(config),
            batches=batches,
            eval_starts=[Start(task_id=task.task_id) for task in held_out],
            pairs=pairs,
        )
    except ValueError as error:
        raise RunError(str(error)) from error


def load_envs(config: Config, before: Manifest | None = None) -> tuple[DecPOMDPEnv, DecPOMDPEnv]:
    """Build the environments of training and evaluation, and load their data from the same source.

    Raises:
        ConfigError: If an environment refuses its arguments.
        RunError: If data cannot be loaded, or one `task_id` names two problems.
    """
    train_env = _build_train_env(config, before)
    return train_env, _load_eval_env(config, train_env, before)


def _build_train_env(config: Config, before: Manifest | None) -> DecPOMDPEnv:
    return build_env(lambda: config.make_train_env(pin_commit(before, "train")))


def _load_eval_env(config: Config, train_env: DecPOMDPEnv, before: Manifest | None) -> DecPOMDPEnv:
    """Load the data of training, and build the environment of evaluation with data from the same source."""
    train = _load_tasks(config, train_env, "train")
    source = pin_commit(before, "eval") or same_source(config, train_env)
    eval_env = build_env(lambda: config.make_eval_env(source))
    held_out = _load_tasks(config, eval_env, "eval")
    common = train.positions.keys() & held_out.positions.keys()
    for task_id in common:
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
            "%d of the %d held-out tasks are trained on too, so that what is measured on them says little of "
            "others: %s",
            *(len(common), len(held_out), remedy),
        )
    return eval_env


def _load_tasks(config: Config, env: DecPOMDPEnv, part: str) -> TaskSet:
    try:
        return env.tasks
    except (ValueError, OSError) as error:
        split = getattr(config.dataset, f"{part}_split")
        data = f"the data of {config.env.id} (dataset.{part}_split={split})"
        raise RunError(f"cannot load {data}: {error}") from error


def same_source(config: Config, env: DecPOMDPEnv) -> str | None:
    """Return the `source` that loads another split from the place where the data of an environment was found.

    `None` if the configuration has a source for each split.
    """
    sources = config.dataset.train_source, config.dataset.eval_source
    return find_source(env.tasks.describe()) if sources == (None, None) else None


def _check_opponent(folder: str | None, agents: Collection[str]) -> None:
    """Raise a `ConfigError` unless the folder of `algorithm.preferences.opponent` holds a team of these agents."""
    if folder is None:
        return
    try:
        plays = read_manifest(Path(folder))["agents"]
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"algorithm.preferences.opponent={folder} is neither current, nor history, nor a team that "
            f"output.save_final_model has written: {error}"
        ) from None
    if set(plays) != set(agents):
        raise ConfigError(
            f"algorithm.preferences.opponent: the team in {folder} plays {', '.join(plays)}, and the environment "
            f"has {', '.join(agents)}"
        )


def _read_pairs(config: Config, team: TeamSpec) -> list[Rollout]:
    """Read the stored pairs of a run; none if the run samples."""
    preferences, source = config.algorithm.preferences, config.algorithm.pairs_source
    if preferences is None or source is None:
        return []
    models = {agent: team.policies[name].name for agent, name in team.agents.items()}
    try:
        # Imported here, because only runs that learn from stored pairs need it.
        from llm_decpomdp.algorithms.preferences.stored import stored_pairs

        return stored_pairs(Path(source), models, preferences.pairs_per_start, config.env.id)
    except ValueError as error:
        raise ConfigError(f"algorithm.preferences.source: {error}") from None


def _reserved_tasks(config: Config, env: DecPOMDPEnv) -> list[str]:
    """Return the training problems that only the warm start may use."""
    if not config.warm_start.disjoint:
        return []
    tasks = [task.task_id for task in env.tasks.tasks]
    return draw_share(tasks, config.warm_start.share, config.seed)


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
    reserved = _reserved_tasks(config, env)
    if len(reserved) == len(tasks):
        raise ConfigError(
            f"warm_start.share={config.warm_start.share:g} of {len(tasks)} problems, rounded up, is all of "
            "them: warm_start.disjoint leaves reinforcement none; lower the share, or take more problems"
        )
    return schedule(config, tasks, {*skipped, *reserved})


def trainer_options(config: Config) -> TrainerOptions:
    """Build the options of the trainer."""
    values = {**vars(config.output), **config.algorithm.flat(), "seed": config.seed}
    values["group_size"] = config.algorithm.num_generations
    values["eval_every"] = config.evaluation.every
    return TrainerOptions(**{field.name: values[field.name] for field in fields(TrainerOptions)})


def schedule(config: Config, tasks: Sequence[str], left_out: Collection[str] = ()) -> Batches:
    """Return the starts of each update: every task once an epoch, in an order that the seed decides.

    The last update of an epoch may be smaller. Leaving tasks out does not change the order of the others.
    """
    starts = [Start(task_id=task) for task in tasks]
    return arrange(config, starts, [start for start in starts if start.task_id in left_out])


def arrange(config: Config, items: Sequence[T], left_out: Collection[T] = ()) -> list[list[T]]:
    """Return the items of each update: each item once an epoch, in an order that the seed decides."""
    size, batches = config.algorithm.prompts_per_update, []
    for epoch in range(config.algorithm.num_train_epochs):
        order = stream(config.seed, "schedule", epoch).permutation(len(items))
        shuffled = [items[i] for i in order if items[i] not in left_out]
        batches += [shuffled[first : first + size] for first in range(0, len(shuffled), size)]
    return batches[: config.algorithm.max_updates]


def starts_longest_first(tasks: Iterable[Task]) -> list[Start]:
    """Return the starts of tasks, most text first, as the longest prompts are found early."""
    ordered = sorted(tasks, key=lambda task: len(repr(task)), reverse=True)
    return [Start(task_id=task.task_id) for task in ordered]
