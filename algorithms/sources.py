"""The wrappers of a source that optional features are.

Each feature attaches here by a few lines, and by its option in `TrainerOptions.wrapper_options`. A feature that is
off is not even imported.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.rollouts.rollout import Start, TextEnv
from llm_decpomdp.algorithms.rollouts.rollout_options import TrainerOptions
from llm_decpomdp.algorithms.training.rollout_source import RolloutSource
from llm_decpomdp.policy import Team


def add_wrappers(
    source: RolloutSource,
    env: TextEnv,
    team: Team,
    learner: BaseLearner,
    options: TrainerOptions,
    *,
    problems: Sequence[Start] = (),
    opponents: Team | None = None,
    can_prefetch: bool = False,
) -> RolloutSource:
    """Return a source with a wrapper around it for each optional feature that the options ask for.

    Args:
        source: Samples the starts of each update, or has stored rollouts.
        env: The environment.
        team: The team that learns.
        learner: The learner of the team.
        options: How to sample.
        problems: Starts that dynamic sampling and curricula draw from; by default those of the source.
        opponents: The team that `opponent` of the algorithm's options names.
        can_prefetch: Whether workers can sample while the learner learns.

    Raises:
        ValueError: If the options do not fit the rollouts.
    """
    # The order matters: opponents are scored, too; dynamic sampling goes by the scores; a curriculum chooses the
    # starts of all of that; and asynchronous rollouts hold whole batches back.
    problems = list(problems or source.starts)
    if opponents is not None or learner.has_opponent:
        from llm_decpomdp.algorithms.preferences.opponents import OpponentSource, check_opponents

        check_opponents(learner, options, source, opponents)
        if opponents is not None:
            source = OpponentSource(source, env, opponents, team, options)
    if options.reward_model.path is not None:
        from llm_decpomdp.algorithms.rewards.scorer import make_scored_source

        source = make_scored_source(source, env, team, options)
    if options.max_resample_rounds:
        from llm_decpomdp.algorithms.training.dynamic_sampling import DynamicSamplingSource

        source = DynamicSamplingSource(
            source, learner, problems, options.max_resample_rounds, options.seed
        )
    if options.curriculum is not None:
        from llm_decpomdp.algorithms.training.curriculum import CurriculumSource

        source = CurriculumSource(source, problems, options.group_size, options.seed)
    if options.in_flight:
        from llm_decpomdp.algorithms.training.in_flight import InFlightSource

        source = InFlightSource(source, learner, options.max_async_level)
    elif options.max_async_level:
        from llm_decpomdp.algorithms.training.async_rollouts import AsyncSource

        # With several steps a batch, or weights in shards, weights change before all rollouts are there.
        one_step = learner.options.num_iterations == 1 and not learner.is_sharded
        source = AsyncSource(source, learner, options.max_async_level, can_prefetch and one_step)
    return source
