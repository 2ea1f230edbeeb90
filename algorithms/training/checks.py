"""What is checked before a run begins: that options, team, starts and environments fit together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain

from llm_decpomdp.agents.models.weights import has_shards
from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.algorithm import Algorithm
from llm_decpomdp.algorithms.learning.base_learner import trainable_policies
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollout_workers.rollout_worker import (
    RolloutWorker,
    check_rollout_worker,
)
from llm_decpomdp.algorithms.rollouts.cost import Bounded
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.long_prompts import require_short
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.training.curriculum import check_curriculum
from llm_decpomdp.algorithms.training.dynamic_sampling import check_refill
from llm_decpomdp.algorithms.training.opponents import check_comparator
from llm_decpomdp.algorithms.training.shard_options import check_sharded
from llm_decpomdp.algorithms.training.trainer_options import TrainerOptions, check_run
from llm_decpomdp.policy import Team

logger = logging.getLogger(__name__)


def check_training(
    env: TextEnv,
    eval_env: TextEnv,
    team: Team,
    algorithm: Algorithm,
    learner_options: LearnerOptions,
    options: TrainerOptions,
    *,
    batches: Sequence[Sequence[Start]],
    eval_starts: Sequence[Start],
    problems: Sequence[Start],
    stored: bool,
    comparator: Team | None,
    rollout_worker: RolloutWorker | None,
    warm: bool,
) -> None:
    """Check a run before anything is sampled, and warn of processes that would wait.

    Args:
        env: Where updates are played.
        eval_env: Where evaluations are played.
        team: A policy for each agent.
        algorithm: Which algorithm learns.
        learner_options: How the policies step, completed by the algorithm.
        options: How to sample, evaluate and save.
        batches: Starts of each update.
        eval_starts: Starts of an evaluation.
        problems: Starts that `refill` and `curriculum` draw from.
        stored: Whether rollouts are stored, and none played.
        comparator: The team that the learner's options name, if it is one of its own.
        rollout_worker: Plays the rollout batches, if it was given.
        warm: Whether supervised learning comes first.

    Raises:
        ValueError: If something does not fit, or a first prompt is too long for its policy.
    """
    check_run(options, learner_options, batches, eval_starts)
    if has_shards(w for policy in trainable_policies(team).values() for w in policy.parameters()):
        check_sharded(algorithm, learner_options, options.reward_model, warm)
    refitted = bool(options.reward_model_every)
    check_comparator(learner_options, comparator, batches, stored, refitted)
    if isinstance(env, Bounded):
        learner_options.check_horizon(env.num_turns)
    check_lag(options, algorithm, learner_options, stored)
    check_refill(options.refill, problems, batches)
    check_curriculum(options.curriculum, options.lag, problems, batches, stored)
    require_short(eval_env, team, eval_starts)
    if not stored:
        algorithm.check_rollouts(team, learner_options, options, options.group_size)
        chosen = options.refill or options.curriculum
        starts = problems if chosen else list(chain(*batches))
        for players in (team, comparator):
            if players is not None:
                require_short(env, players, starts)
    size = options.starts_per_bundle
    check_rollout_worker(rollout_worker, size, team, chain(problems, *batches, eval_starts))
    parts = -(-max(map(len, batches)) // (size or 1))
    processes.warn_of_idle(parts, "bundles" if size else "starts")


def check_lag(
    options: TrainerOptions, algorithm: Algorithm, learner_options: LearnerOptions, stored: bool
) -> None:
    """Warn of a lag that nothing corrects; raise a `ValueError` of one where nothing is sampled."""
    if not options.lag:
        return
    if stored:
        raise ValueError(
            f"lag={options.lag} means nothing with stored rollouts, as nothing is sampled: set lag=0"
        )
    if learner_options.correction == "none" and algorithm.is_on_policy:
        logger.warning(
            "with lag=%d updates learn from what earlier weights have sampled, as if the present ones had: set "
            "correction=truncate",
            options.lag,
        )
