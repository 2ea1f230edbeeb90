"""The setup of a run: environments, team, options and the schedule of starts, before any model is loaded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from llm_decpomdp.agents.loading import PolicySpec, TeamSpec
from llm_decpomdp.algorithms import (
    ALGORITHMS,
    Algorithm,
    LearnerOptions,
    Rollout,
    Start,
    TrainerOptions,
)
from llm_decpomdp.algorithms.learning.learner_options import StepOptions
from llm_decpomdp.algorithms.rollouts.rollout_options import RewardScoreOptions, StorageOptions
from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.keys import FIELDS
from llm_decpomdp.benchmarks.config.schema import Config, ModelConfig
from llm_decpomdp.benchmarks.runs import setup_checks as checks
from llm_decpomdp.benchmarks.runs.data import Manifest, build_train_env, load_eval_env
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.options import from_text, pick
from llm_decpomdp.policy import Policy
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
    def has_plain_source(self) -> bool:
        """Whether rollouts need no worker, stored pairs, saved opponent or feature of the trainer's options."""
        config = self.config
        workers = config.inference.engine == "vllm" or config.cluster.rollout_workers
        pairs = self.pairs or config.algorithm.named_opponent is not None
        return not (workers or pairs or self.trainer.wraps_source)

    @property
    def problems(self) -> list[Start]:
        """Starts of all training problems that reinforcement learning may sample."""
        left_out = {*self.skipped, *_reserved_tasks(self.config, self.train_env)}
        tasks = [task.task_id for task in self.train_env.tasks.tasks]
        return [Start(task_id=task) for task in tasks if task not in left_out]

    def skip_tasks(self, skipped: Sequence[str]) -> ResolvedRun:
        """Return the run without some of its training problems."""
        batches = plan_batches(self.config, self.train_env, self.pairs, skipped)
        learner = replace(self.learner, total_updates=len(batches))
        return replace(self, skipped=skipped, batches=batches, learner=learner)


def resolve(
    config: Config, before: Manifest | None = None, edit: EditConfig | None = None
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
    train_env = build_train_env(config, before)
    if edit is not None:
        config = edit(config, train_env.possible_agents)
    # Everything that needs no data is checked first: loading data may take minutes.
    config, team, algorithm, learner = declare_run(config, train_env)
    checks.check_files(config, team, train_env.possible_agents)
    eval_env = load_eval_env(config, train_env, before)
    held_out = eval_env.tasks.tasks[: config.evaluation.num_tasks]
    try:
        pairs: Sequence[Rollout] = ()
        if config.algorithm.pairs_source is not None:
            from llm_decpomdp.benchmarks.runs.sources import read_pairs

            pairs = read_pairs(config, team)
        batches = plan_batches(config, train_env, pairs)
        return ResolvedRun(
            config=config,
            train_env=train_env,
            eval_env=eval_env,
            team=team,
            algorithm=algorithm,
            # Schedules of the learner fall to the end of the run.
            learner=replace(learner, total_updates=len(batches)),
            trainer=trainer_options(config),
            batches=batches,
            eval_starts=[Start(task_id=task.task_id) for task in held_out],
            pairs=pairs,
        )
    except ValueError as error:
        raise RunError(str(error)) from error


def declare_run(
    config: Config, env: DecPOMDPEnv
) -> tuple[Config, TeamSpec, Algorithm, LearnerOptions]:
    """Make what a configuration declares, but for data and models, and check that it all fits together.

    Returns the configuration with the sizes that only the environment knows, and the options for a single update.

    Raises:
        ConfigError: If values do not fit each other or the environment.
    """
    config = config.with_sizes(env)
    checks.check_sections(config)
    team = team_spec(config, env.possible_agents)
    checks.check_team(config, team)
    try:
        algorithm = ALGORITHMS[config.algorithm.name]
        checks.check_pairs(config, algorithm)
        algorithm = algorithm.configure(**config.algorithm.own_options)
    except (KeyError, ImportError) as error:
        raise ConfigError(f"algorithm.name: {error.args[0]}") from None
    except (ValueError, TypeError) as error:
        raise ConfigError(f"algorithm.options: {error}") from None
    try:
        # Schedules need a number of updates, which is known once the data is read.
        learner = learner_options(config, 1, team)
        checks.check_learning(config, env, algorithm, learner)
    except ValueError as error:
        raise ConfigError(f"section algorithm: {error}") from None
    if config.learner.fsdp_size > 1:
        from llm_decpomdp.benchmarks.config.placement import check_shards

        check_shards(config, team.policies, algorithm, learner)
    return config, team, algorithm, learner


def learner_options(config: Config, total_updates: int, team: TeamSpec) -> LearnerOptions:
    """Build the options of the learner: those of the section `algorithm`, and of its sections that are on."""
    algorithm = config.algorithm
    sections: dict[str, Any] = {
        "objective": algorithm.objective,
        "importance_sampling": algorithm.importance_sampling,
        "kl": algorithm.kl,
        "truncation": algorithm.truncation,
        "joint_aggregation": algorithm.joint_aggregation,
        "critic": algorithm.critic,
    }
    steps = pick(StepOptions, algorithm)
    # A configuration for several turns may be run with a single one, and then there is nothing to weigh.
    if config.horizon == 1 or not steps.turn_gradient_weights:
        steps = replace(steps, turn_gradient_weights=None)
    # Frozen policies have no loss that could be divided by a length.
    lengths = [spec.max_new_tokens for spec in team.policies.values() if spec.can_be_trained]
    return LearnerOptions(
        **vars(steps),
        **{name: section for name, section in sections.items() if section is not None},
        discount=config.env.discount,
        total_updates=total_updates,
        fixed_length=max(lengths, default=1),
    )


def trainer_options(config: Config) -> TrainerOptions:
    """Build the options of the trainer."""
    algorithm = config.algorithm
    return TrainerOptions(
        **vars(algorithm.rollout),
        **vars(pick(StorageOptions, config.output)),
        group_size=algorithm.group_size,
        reward_model=algorithm.reward_model or RewardScoreOptions(),
        eval_every=config.evaluation.every,
        seed=config.seed,
    )


# The team


def team_spec(config: Config, possible_agents: Sequence[str]) -> TeamSpec:
    """Read the team of a configuration; errors as of `agents_of` and `policies_of`."""
    agents = agents_of(config, possible_agents)
    team = TeamSpec(agents, policies_of(config, agents))
    if config.partners.pool:
        from llm_decpomdp.benchmarks.runs.partner_pool import declare_pool

        return declare_pool(config, team)
    return team


def agents_of(config: Config, possible_agents: Sequence[str]) -> dict[str, str]:
    """Return the name of each agent's policy, in the order of the agents.

    Raises:
        ConfigError: If `team` does not name exactly the agents, or contradicts `model.shared`.
    """
    if not config.team:
        return {agent: teams.SHARED if config.model.shared else agent for agent in possible_agents}
    teams.check_agents(config, possible_agents)
    return {agent: config.team[agent] for agent in possible_agents}


def policies_of(config: Config, agents: Mapping[str, str]) -> dict[str, PolicySpec]:
    """Return the declarations of the policies, by name.

    Raises:
        ConfigError: If a declaration is wrong, or nobody plays a declared policy.
    """
    names = [*dict.fromkeys([*agents.values(), *config.policies])]
    teams.log_undeclared(config, names)
    specs = {name: _policy_spec(config, name) for name in names}
    teams.check_policies(config, agents, specs)
    return specs


def _policy_spec(config: Config, name: str) -> PolicySpec:
    """Return the declaration of a policy: its own keys, and for the rest those of `model`."""
    where, settings = f"policies.{name}", config.policies.get(name)
    settings = {} if settings is None else settings  # `helper:` in YAML is as `model:` says
    read = teams.check_keys(where, settings)
    inherited = {key: value for key, value in asdict(config.model).items() if key in read}
    own = {key: value for key, value in settings.items() if f"model.{key}" in FIELDS}
    try:
        # `PolicySpec` also takes what only evaluations allow, such as temperature 0.
        from_text(ModelConfig, {"name": "", **own}, f"{where}.")  # whose limits are narrower
        return from_text(PolicySpec, {**inherited, **settings}, f"{where}.")
    except ValueError as error:
        raise ConfigError(str(error)) from None


def load_policies(
    config: Config, envs: Sequence[DecPOMDPEnv], team: TeamSpec | None = None, hollow: bool = False
) -> dict[str, Policy]:
    """Load a policy for each agent; `hollow` as of `load_team`.

    Raises:
        ConfigError: As `check_loading`.
        RunError: If a package is missing, or a model cannot be loaded.
    """
    team = team or team_spec(config, envs[0].possible_agents)
    teams.check_loading(config, envs, team)
    try:
        return team.load(config.seed, hollow)
    except (OSError, ImportError, ValueError, TypeError) as error:
        raise RunError(f"cannot load the team: {error}") from error


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


def _reserved_tasks(config: Config, env: DecPOMDPEnv) -> list[str]:
    """Return the training problems that only the warm start may use."""
    if not config.warm_start.disjoint:
        return []
    from llm_decpomdp.algorithms.training.sft_data import draw_share

    tasks = [task.task_id for task in env.tasks.tasks]
    return draw_share(tasks, config.warm_start.share, config.seed)
