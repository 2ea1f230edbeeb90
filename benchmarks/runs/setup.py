"""The setup of a run: environments, team, options and the schedule of starts, before any model is loaded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from llm_decpomdp.agents.loading import TeamSpec
from llm_decpomdp.algorithms import (
    ALGORITHMS,
    Algorithm,
    LearnerOptions,
    Rollout,
    Start,
    TrainerOptions,
)
from llm_decpomdp.algorithms.learning.completion_values import check_credit
from llm_decpomdp.algorithms.rollouts.checks import Cost, cost
from llm_decpomdp.algorithms.training.sft_data import (
    Demonstration,
    draw_share,
    read_demonstrations,
    reference_demonstrations,
)
from llm_decpomdp.algorithms.training.warm_start import GOLD, PASSES
from llm_decpomdp.benchmarks.config.compiled import check_compiled
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError, raise_config_errors
from llm_decpomdp.benchmarks.config.in_flight import check_in_flight
from llm_decpomdp.benchmarks.config.load import NOBODY_ASKED, asks_outside, read_config
from llm_decpomdp.benchmarks.config.placement import check_placement, check_shards
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.config.teams import check_trainable, samples_elsewhere, team_spec
from llm_decpomdp.benchmarks.config.trackers import check_trackers, require_packages
from llm_decpomdp.benchmarks.runs.data import (
    Manifest,
    build_train_env,
    check_opponent,
    identify_pairs,
    load_eval_env,
    read_pairs,
)
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.options import pick
from llm_decpomdp.seeding import stream

T = TypeVar("T")

Batches = list[list[Start]]

EditConfig = Callable[[Config, Sequence[str]], Config]
"""Returns a changed configuration, for the agents of its environment."""


@dataclass(frozen=True)
class ResolvedRun:
    """A checked configuration, with everything that it declares except the models."""

    config: Config
    train_env: DecPOMDPEnv
    eval_env: DecPOMDPEnv
    team: TeamSpec
    algorithm: Algorithm
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
    def envs(self) -> tuple[DecPOMDPEnv, DecPOMDPEnv]:
        """The environments of training and of evaluation."""
        return self.train_env, self.eval_env

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
        inputs = self.team.identify()
        return inputs | (identify_pairs(self.config, len(self.pairs)) if self.pairs else {})

    def skip_tasks(self, skipped: Sequence[str]) -> ResolvedRun:
        """Return the run without some of its training problems."""
        batches = plan_batches(self.config, self.train_env, self.pairs, skipped)
        learner = replace(self.learner, total_updates=len(batches))
        return replace(self, skipped=skipped, batches=batches, learner=learner)


def resolve(
    config: Config,
    before: Manifest | None = None,
    edit: EditConfig | None = None,
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
    scorer = None if scores is None else scores.path
    if scorer is not None and not Path(scorer).is_file():
        raise ConfigError(
            f"algorithm.reward_model.path: there is no file {scorer}; `reward-model` writes it"
        )
    train_env = build_train_env(config, before)
    if edit is not None:
        config = edit(config, train_env.possible_agents)
    # Everything that needs no data is checked first: loading data may take minutes.
    checked = check_run(config, train_env)
    config, team = checked.config, checked.team
    check_opponent(config.algorithm.named_opponent, train_env.possible_agents)
    team.check()
    check_trainable(team.policies)
    if config.output.trackers:
        require_packages(config.output.trackers)
    eval_env = load_eval_env(config, train_env, before)
    held_out = eval_env.tasks.tasks[: config.evaluation.num_tasks]
    try:
        pairs = read_pairs(config, team)
        batches = plan_batches(config, train_env, pairs)
        return ResolvedRun(
            config=config,
            train_env=train_env,
            eval_env=eval_env,
            team=team,
            algorithm=checked.algorithm,
            # Schedules of the learner fall to the end of the run.
            learner=replace(checked.learner, total_updates=len(batches)),
            trainer=trainer_options(config),
            batches=batches,
            eval_starts=[Start(task_id=task.task_id) for task in held_out],
            pairs=pairs,
        )
    except ValueError as error:
        raise RunError(str(error)) from error


def _reserved_tasks(config: Config, env: DecPOMDPEnv) -> list[str]:
    """Return the training problems that only the warm start may use."""
    if not config.warm_start.disjoint:
        return []
    tasks = [task.task_id for task in env.tasks.tasks]
    return draw_share(tasks, config.warm_start.share, config.seed)


def load_config(
    path: Path | None = None,
    overrides: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    folder: Path | None = None,
) -> Config:
    """Read a configuration and check it, without loading data or models; as `read_config` and `validate`."""
    return validate(read_config(path, overrides, flags, defaults, folder))


def load_stored_config(path: Path) -> Config:
    """Load the configuration of a run to look at its episodes: no expert is asked, and no key needed for one."""
    return load_config(path, flags=NOBODY_ASKED if asks_outside(path) else None)


def validate(config: Config) -> Config:
    """Check how sections fit together, loading nothing; return the configuration with its environment's sizes."""
    with raise_config_errors():
        config.make_train_env()  # it alone sees `train_split`, which it may refuse
        env = config.make_eval_env()
    return check_run(config, env).config


class CheckedRun(NamedTuple):
    """A configuration that fits its environment, and what it declares."""

    config: Config
    """With the sizes that only the environment knows."""
    team: TeamSpec
    algorithm: Algorithm
    learner: LearnerOptions
    """The options of the learner for a run of one update."""


def check_run(config: Config, env: DecPOMDPEnv) -> CheckedRun:
    """Check a configuration against its environment, and set the sizes that only the environment knows.

    Raises:
        ConfigError: If values do not fit each other or the environment.
    """
    config = config.with_sizes(env)
    if config.output.trackers:
        check_trackers(config.output.trackers)
    if config.output.keep_best and config.evaluation.num_tasks == 0:
        raise ConfigError("output.keep_best needs evaluations: set evaluation.num_tasks")
    # Rollout batches are the unit that workers share; a single one would keep all but one waiting.
    workers = config.cluster.rollout_workers
    if workers and config.algorithm.rollout.rollout_batch_size is None:
        raise ConfigError(
            f"cluster.rollout_workers={workers}: workers share the rollout batches of an update, and without "
            "algorithm.rollout.rollout_batch_size there is one: set it, or drop cluster.rollout_workers"
        )
    team = team_spec(config, env.possible_agents)
    if samples_elsewhere(config, team.policies):
        check_placement(config, team.policies)
    if config.algorithm.rollout.in_flight:
        check_in_flight(config, team.policies)
    check_compiled(config, team.policies)
    try:
        algorithm = ALGORITHMS[config.algorithm.name]
        if config.algorithm.preferences is not None and not algorithm.supports_stored_pairs:
            raise ConfigError(
                f"section algorithm.preferences means nothing with {algorithm.name}, which makes no pairs: set "
                "name=madpo, or drop it"
            )
        algorithm = algorithm.configure(**config.algorithm.own_options)
    except (KeyError, ImportError) as error:
        raise ConfigError(f"algorithm.name: {error.args[0]}") from None
    except (ValueError, TypeError) as error:
        raise ConfigError(f"algorithm.options: {error}") from None
    try:
        # Schedules need a number of updates, which is known once the data is read.
        learner = learner_options(config, 1, team)
        agents, size = env.possible_agents, config.algorithm.group_size
        rollouts, plays = config.algorithm.rollout, config.algorithm.pairs_source is None
        algorithm.check(agents, learner)
        if plays:
            algorithm.check_rollouts(agents, learner, rollouts, size)
        elif config.warm_start.disjoint:
            raise ValueError(
                "preferences.source learns from stored pairs, of whatever problems: drop warm_start.disjoint"
            )
        complete = algorithm.complete_options(learner)
        check_credit(rollouts, complete)
        if plays:
            rollouts.check_turn_order(env, size, has_critic=complete.critic.exists)
        # Its error names trees that are too large to grow.
        start_cost(config)
        learner.check_horizon(config.horizon)
    except ValueError as error:
        raise ConfigError(f"section algorithm: {error}") from None
    if config.learner.fsdp_size > 1:
        check_shards(config, team.policies, algorithm, learner)
    return CheckedRun(config, team, algorithm, learner)


def learner_options(config: Config, total_updates: int, team: TeamSpec) -> LearnerOptions:
    """Build the options of the learner from those of the same names in the configuration."""
    # Frozen policies have no loss that could be divided by a length.
    lengths = [spec.max_new_tokens for spec in team.policies.values() if spec.can_be_trained]
    weights = config.algorithm.turn_gradient_weights
    return pick(
        LearnerOptions,
        config.algorithm,
        discount=config.env.discount,
        total_updates=total_updates,
        fixed_length=max(lengths, default=1),
        # Configurations for several turns are also run with one, where nothing is weighed.
        turn_gradient_weights=weights if weights and config.horizon > 1 else None,
        **config.algorithm.sections(),
    )


def start_cost(config: Config) -> Cost:
    """Return the largest cost of the rollout from one start."""
    algorithm, env = config.algorithm, config.env
    agents = 1 if env.centralized else env.num_agents
    opponent = algorithm.named_opponent is not None
    return cost(algorithm.rollout, algorithm.group_size, agents, config.horizon, opponent=opponent)


def trainer_options(config: Config) -> TrainerOptions:
    """Build the options of the trainer from those of the same names in the configuration."""
    return pick(
        TrainerOptions,
        config.algorithm.rollout,
        config.algorithm,
        config.output,
        eval_every=config.evaluation.every,
        seed=config.seed,
        **config.algorithm.sections(),
    )


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
