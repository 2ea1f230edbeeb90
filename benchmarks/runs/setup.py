"""The setup of a run before any model is loaded: checked configuration, environments, team, options and starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.loading import TeamSpec
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
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError, raise_config_errors
from llm_decpomdp.benchmarks.config.load import read_config, read_tree
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.config.teams import agents_of, check_loading, policies_of
from llm_decpomdp.benchmarks.runs import setup_checks as checks
from llm_decpomdp.benchmarks.runs.data import (
    Batches,
    Manifest,
    build_train_env,
    load_eval_env,
    plan_batches,
    reserved_tasks,
)
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.options import pick
from llm_decpomdp.policy import Policy

EditConfig = Callable[[Config, Sequence[str]], Config]
"""Returns a changed configuration, for the agents of its environment."""


@dataclass(frozen=True)
class DeclaredRun:
    """A checked configuration, and what it declares without data."""

    config: Config
    """With the sizes that only the environment knows."""
    team: TeamSpec
    algorithm: Algorithm
    learner: LearnerOptions


@dataclass(frozen=True)
class ResolvedRun(DeclaredRun):
    """A checked configuration, with everything that it declares except the models."""

    train_env: DecPOMDPEnv
    eval_env: DecPOMDPEnv
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
        left_out = {*self.skipped, *reserved_tasks(self.config, self.train_env)}
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
    declared = declare_run(config, train_env)
    config, team = declared.config, declared.team
    checks.check_files(config, team, train_env.possible_agents)
    eval_env = load_eval_env(config, train_env, before)
    held_out = eval_env.tasks.tasks[: config.evaluation.num_tasks]
    try:
        pairs: Sequence[Rollout] = ()
        if config.algorithm.pairs_source is not None:
            from llm_decpomdp.benchmarks.runs.sources import read_pairs

            pairs = read_pairs(config, team)
        batches = plan_batches(config, train_env, pairs)
        # Schedules of the learner fall to the end of the run.
        learner = replace(declared.learner, total_updates=len(batches))
        return ResolvedRun(
            config=config,
            team=team,
            algorithm=declared.algorithm,
            learner=learner,
            train_env=train_env,
            eval_env=eval_env,
            trainer=trainer_options(config),
            batches=batches,
            eval_starts=[Start(task_id=task.task_id) for task in held_out],
            pairs=pairs,
        )
    except ValueError as error:
        raise RunError(str(error)) from error


def declare_run(config: Config, env: DecPOMDPEnv) -> DeclaredRun:
    """Make what a configuration declares, but for data and models, and check that it all fits together.

    The options of the learner are those of a run with a single update.

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
    return DeclaredRun(config, team, algorithm, learner)


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


def load_policies(
    config: Config, envs: Sequence[DecPOMDPEnv], team: TeamSpec | None = None, hollow: bool = False
) -> dict[str, Policy]:
    """Load a policy for each agent; `hollow` as of `load_team`.

    Raises:
        ConfigError: As `check_loading`.
        RunError: If a package is missing, or a model cannot be loaded.
    """
    team = team or team_spec(config, envs[0].possible_agents)
    check_loading(config, envs, team)
    try:
        return team.load(config.seed, hollow)
    except (OSError, ImportError, ValueError, TypeError) as error:
        raise RunError(f"cannot load the team: {error}") from error


# Configurations that are read and checked, without loading data or models


ASKS_OUTSIDE = "expert_edits"
"""Mode whose prompts another model writes."""

# Looking at a stored run must not need the key of the expert's server.
NOBODY_ASKED = {
    "external.mode": "plain",
    "external.expert_model": None,
    "external.expert_base_url": None,
}


def load_config(
    path: Path | str | None = None,
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


def asks_outside(path: Path) -> bool:
    """Check whether another model wrote prompts of a run: those cannot be written again."""
    external = read_tree(path).get("external")
    return isinstance(external, Mapping) and external.get("mode") == ASKS_OUTSIDE


def validate(config: Config) -> Config:
    """Check how sections fit together, loading nothing; return the configuration with its environment's sizes."""
    with raise_config_errors():
        config.make_train_env()  # it alone sees `train_split`, which it may refuse
        env = config.make_eval_env()
    return declare_run(config, env).config
