"""Checks of a configuration against its environment, its team and its algorithm, before data are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llm_decpomdp.agents.loading import TeamSpec
from llm_decpomdp.algorithms import Algorithm, LearnerOptions
from llm_decpomdp.algorithms.learning.feature_options import check_credit
from llm_decpomdp.algorithms.rollouts.checks import Cost, cost
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.placement import check_placement
from llm_decpomdp.benchmarks.config.policy_checks import check_compiled, check_in_flight
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.config.teams import check_trainable, samples_elsewhere
from llm_decpomdp.benchmarks.config.trackers import check_trackers, require_packages
from llm_decpomdp.env import DecPOMDPEnv


def check_files(config: Config, team: TeamSpec, agents: Sequence[str]) -> None:
    """Check the files and packages that a run needs besides data and models, and that somebody learns.

    Raises:
        ConfigError: If a file or a package is missing, or no policy can be trained.
    """
    scores = config.algorithm.reward_model
    scorer = None if scores is None else scores.path
    if scorer is not None and not Path(scorer).is_file():
        raise ConfigError(
            f"algorithm.reward_model.path: there is no file {scorer}; `reward-model` writes it"
        )
    if config.algorithm.named_opponent is not None:
        from llm_decpomdp.benchmarks.runs.sources import check_opponent

        check_opponent(config.algorithm.named_opponent, agents)
    team.check()
    check_trainable(team.policies)
    if config.output.trackers:
        require_packages(config.output.trackers)


def check_sections(config: Config) -> None:
    """Raise a `ConfigError` unless sections fit together that say how a run is logged and shared by workers."""
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


def check_team(config: Config, team: TeamSpec) -> None:
    """Raise a `ConfigError` unless the policies can be sampled where and as the configuration says."""
    if samples_elsewhere(config, team.policies):
        check_placement(config, team.policies)
    if config.algorithm.rollout.in_flight:
        check_in_flight(config, team.policies)
    if any(spec.compile for spec in team.policies.values()):
        check_compiled(config, team.policies)


def check_pairs(config: Config, algorithm: Algorithm) -> None:
    """Raise a `ConfigError` for preference pairs with an algorithm that makes none."""
    if config.algorithm.preferences is not None and not algorithm.supports_stored_pairs:
        raise ConfigError(
            f"section algorithm.preferences means nothing with {algorithm.name}, which makes no pairs: set "
            "name=madpo, or drop it"
        )


def check_learning(
    config: Config, env: DecPOMDPEnv, algorithm: Algorithm, learner: LearnerOptions
) -> None:
    """Raise a `ValueError` unless the algorithm can learn by these options from such rollouts."""
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


def start_cost(config: Config) -> Cost:
    """Return the largest cost of the rollout from one start."""
    algorithm, env = config.algorithm, config.env
    agents = 1 if env.centralized else env.num_agents
    opponent = algorithm.named_opponent is not None
    return cost(algorithm.rollout, algorithm.group_size, agents, config.horizon, opponent=opponent)
