"""The source of rollouts that the options of a run ask for: each feature attaches here by a few lines."""

from __future__ import annotations

from collections.abc import Sequence

from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.training.rollout_source import RolloutSource
from llm_decpomdp.algorithms.training.trainer_options import TrainerOptions
from llm_decpomdp.policy import Team


def make_source(
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
    """Wrap a source as the options say; a feature that is off is not even imported.

    The order matters: opponents are scored, too; what scores teach decides what is sampled again; a curriculum
    chooses what all of that works on; and a lag holds whole batches back.

    Args:
        source: Samples, or holds what was stored.
        env: The environment.
        team: The team that learns.
        learner: Its learner.
        options: How to sample.
        problems: Starts that dynamic sampling and curricula draw from; by default those of `source`.
        opponents: The team that `comparator` of the algorithm's options names.
        can_prefetch: Whether workers can sample while the learner learns.

    Raises:
        ValueError: If an option does not fit the source.
    """
    problems = list(problems or source.starts)
    if opponents is not None or learner.has_comparator:
        from llm_decpomdp.algorithms.preferences.opponents import OpponentSource, check_comparator

        check_comparator(learner, options, source, opponents)
        if opponents is not None:
            source = OpponentSource(source, env, opponents, team, options)
    if options.reward_model is not None:
        from llm_decpomdp.algorithms.rewards.scorer import make_scored_source

        source = make_scored_source(source, env, team, options)
    if options.refill:
        from llm_decpomdp.algorithms.training.dynamic_sampling import DynamicSamplingSource

        source = DynamicSamplingSource(source, learner, problems, options.refill, options.seed)
    if options.curriculum is not None:
        from llm_decpomdp.algorithms.training.curriculum import CurriculumSource

        source = CurriculumSource(source, problems, options.group_size, options.seed)
    if options.lag:
        from llm_decpomdp.algorithms.training.async_rollouts import AsyncSource

        # With several steps a batch, or weights in shards, weights change before all rollouts are there.
        one_step = learner.options.updates_per_batch == 1 and not learner.is_sharded
        source = AsyncSource(source, learner, options.lag, can_prefetch and one_step)
    return source
