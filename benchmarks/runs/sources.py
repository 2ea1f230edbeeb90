"""The sources of rollouts of a run that are more than plain sampling."""

from __future__ import annotations

from llm_decpomdp.algorithms import RolloutSource, sources
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.benchmarks.runs.setup import ResolvedRun, arrange
from llm_decpomdp.policy import Team


def make_stored_source(run: ResolvedRun, team: Team) -> RolloutSource:
    """Build the source of the stored pairs of a run, with the tokens of its policies."""
    from llm_decpomdp.algorithms.preferences.stored import StoredSource, add_tokens

    return StoredSource(arrange(run.config, add_tokens(run.pairs, team)))


def wrap_source(
    run: ResolvedRun, source: RolloutSource, team: Team, learner: BaseLearner, can_prefetch: bool
) -> RolloutSource:
    """Return a source with the wrappers of the features that a run asks for; as `add_wrappers`.

    Raises:
        RunError: If the opponents of preference pairs cannot be loaded.
        ValueError: If the features do not fit the rollouts.
    """
    opponents = None
    if run.config.algorithm.named_opponent is not None:
        from llm_decpomdp.benchmarks.runs.preferences import load_opponents

        opponents = load_opponents(run)
    return sources.add_wrappers(
        source,
        run.train_env,
        team,
        learner,
        run.trainer,
        problems=run.problems,
        opponents=opponents,
        can_prefetch=can_prefetch,
    )
