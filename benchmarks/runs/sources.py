"""Rollouts of a run that one process does not sample alone: rollout workers, stored pairs, optional features."""

from __future__ import annotations

from llm_decpomdp.algorithms import (
    PeriodicEvaluation,
    RolloutSource,
    SampledSource,
    WorkerEvaluation,
    WorkerSource,
    sources,
)
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.benchmarks.runs.setup import ResolvedRun, arrange
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
        source = SampledSource(*sampled) if worker is None else WorkerSource(worker, *sampled)
    opponents = None
    if run.config.algorithm.named_opponent is not None:
        from llm_decpomdp.benchmarks.runs.preferences import load_opponents

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
