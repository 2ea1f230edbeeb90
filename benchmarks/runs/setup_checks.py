"""Checks of a configuration against its environment, its team and its algorithm, before data are loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from llm_decpomdp.agents import PolicySpec
from llm_decpomdp.agents.loading import TeamSpec
from llm_decpomdp.algorithms import Algorithm, LearnerOptions
from llm_decpomdp.algorithms.learning.learner_options import check_credit
from llm_decpomdp.algorithms.rollouts.checks import Cost, cost
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.placement import check_placement
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


# Checks of `model.compile` and `algorithm.rollout.in_flight`


def check_in_flight(config: Config, policies: Mapping[str, PolicySpec]) -> None:
    """Check that weights may change while answers are written.

    Raises:
        ConfigError: If nothing samples while the learner learns, if weights cannot be sent to the workers while
            they sample, or if an option promises what depends on the time at which weights arrive.
    """
    # Not before: this loads transformers, which the checks of other runs do without.
    from llm_decpomdp.agents.inference.in_flight import refused_options

    cluster, learner = config.cluster, config.learner
    wrong = {
        "needs workers that sample while the learner learns: set cluster.rollout_workers": not (
            cluster.rollout_workers
        ),
        "sends weights to worker processes of this machine, and actors of cluster.engine=ray take them between "
        "batches only: set cluster.engine=local": cluster.engine == "ray",
        "gives no equal bytes, which learner.deterministic=true promises, because tokens depend on the time at "
        "which weights arrive: set learner.deterministic=false": learner.deterministic,
        "sends whole weights, and those of learner.fsdp_size are in shards: set learner.fsdp_size=1": (
            learner.fsdp_size > 1
        ),
    }
    local = config.inference.engine == "transformers"
    for name, spec in policies.items():
        if not local or spec.kind != "model":
            continue
        for key, value in refused_options(spec).items():
            wrong[
                f"samples with a cache that grows and in one batch, and policies.{name} has {key}={value}: drop it"
            ] = True
    for reason, is_so in wrong.items():
        if is_so:
            raise ConfigError(
                f"algorithm.rollout.in_flight=true {reason}, or set algorithm.rollout.in_flight=false"
            )


def check_compiled(config: Config, policies: Mapping[str, PolicySpec]) -> None:
    """Check that no policy with `compile` is in shards, or in a run that promises equal bytes.

    Raises:
        ConfigError: If one is.
    """
    for name, spec in policies.items():
        if not (spec.compile and spec.can_be_trained):
            continue
        if config.learner.fsdp_size > 1:
            raise ConfigError(
                f"policy {name!r} has compile=true, and layers in shards are not compiled: set it to false, or "
                "learner.fsdp_size=1"
            )
        if config.learner.deterministic:
            raise ConfigError(
                f"policy {name!r} has compile=true, and rounding may depend on the lengths for which code was "
                "compiled, so learner.deterministic=true cannot promise equal bytes: set one of them to false"
            )
