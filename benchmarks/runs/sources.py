"""Rollouts of a run with rollout workers, stored pairs or optional features; checks and reading of pairs."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from llm_decpomdp.agents import load_saved_team
from llm_decpomdp.agents.loading import TeamSpec
from llm_decpomdp.agents.saved_team import read_manifest
from llm_decpomdp.algorithms import (
    PeriodicEvaluation,
    Rollout,
    RolloutSource,
    SampledSource,
    WorkerEvaluation,
    WorkerSource,
    sources,
)
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.config.teams import code_of, endpoints_of
from llm_decpomdp.benchmarks.runs.data import arrange
from llm_decpomdp.benchmarks.runs.setup import ResolvedRun
from llm_decpomdp.policy import Team


def make_sources(
    run: ResolvedRun, team: Team, learner: BaseLearner
) -> tuple[RolloutSource, PeriodicEvaluation]:
    """Build the source of rollouts of a run with workers, stored pairs or optional features, and its evaluations.

    Raises:
        RunError: If the opponents of preference pairs, or Ray, cannot be loaded.
        ValueError: If the features do not fit the rollouts.
    """
    env, options, worker = run.train_env, run.trainer, None
    if run.config.inference.engine == "vllm" or run.config.cluster.rollout_workers:
        from llm_decpomdp.benchmarks.runs.workers import make_rollout_worker

        worker = make_rollout_worker(run, team)
    source: RolloutSource
    if run.pairs:
        from llm_decpomdp.algorithms.preferences.stored import StoredSource, add_tokens

        source = StoredSource(arrange(run.config, add_tokens(run.pairs, team)))
    else:
        sampled = (env, team, learner, options, run.batches, run.problems)
        source = (
            SampledSource(*sampled) if worker is None else WorkerSource(*sampled, worker=worker)
        )
    opponents = None
    if run.config.algorithm.named_opponent is not None:
        opponents = load_opponents(run)
    source = sources.add_wrappers(
        source,
        env,
        team,
        learner,
        options,
        problems=run.problems,
        opponents=opponents,
        can_prefetch=worker is not None,
    )
    evaluated = (run.eval_env, run.eval_starts)
    if worker is None:
        return source, PeriodicEvaluation(*evaluated)
    return source, WorkerEvaluation(worker, *evaluated)


# Preference pairs


def check_opponent(folder: str, agents: Collection[str]) -> None:
    """Raise a `ConfigError` unless the folder of `algorithm.preferences.opponent` holds a team of these agents."""
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


def read_pairs(config: Config, team: TeamSpec) -> list[Rollout]:
    """Read the stored pairs of a run; none if the run samples."""
    preferences, source = config.algorithm.preferences, config.algorithm.pairs_source
    if preferences is None or source is None:
        return []
    models = {agent: team.policies[name].name for agent, name in team.agents.items()}
    try:
        # Imported here, because only runs that learn from stored pairs need it.
        from llm_decpomdp.algorithms.preferences import stored

        pairs_per_start = preferences.pairs_per_start
        return stored.stored_pairs(Path(source), models, pairs_per_start, config.env.id)
    except ValueError as error:
        raise ConfigError(f"algorithm.preferences.source: {error}") from None


def load_opponents(run: ResolvedRun) -> Team:
    """Load the saved team that preference pairs compare the team with.

    Raises:
        RunError: If it cannot be loaded.
        ValueError: If it names code or servers that the configuration does not name.
    """
    folder = str(run.config.algorithm.named_opponent)
    try:
        return load_saved_team(
            folder,
            device=run.config.model.device,
            seed=run.config.seed,
            allow_code=code_of(run.config),
            allow_endpoints=endpoints_of(run.config),
        )
    except (OSError, ImportError) as error:
        raise RunError(f"cannot load the team in {folder}: {error}") from error
