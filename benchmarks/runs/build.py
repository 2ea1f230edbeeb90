"""The trainer of a run: its learner, source of rollouts and callbacks, for a loaded team."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from llm_decpomdp.benchmarks.config.errors import RunError
from llm_decpomdp.benchmarks.runs.setup import ResolvedRun, arrange
from llm_decpomdp.policy import Team
from llm_decpomdp.utils.storage import RunFolder

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.training.checkpoint_manager import CheckpointManager
    from llm_decpomdp.algorithms.training.run_log import RunLog
    from llm_decpomdp.algorithms.training.sft_data import Demonstration
    from llm_decpomdp.algorithms.training.trainer import Trainer

logger = logging.getLogger(__name__)


class TrainingParts(NamedTuple):
    """The trainer of a run, and the two callbacks that hold its results."""

    trainer: Trainer
    checkpoints: CheckpointManager
    log: RunLog


def make_training(
    run: ResolvedRun,
    team: Team,
    folder: RunFolder,
    demonstrations: Sequence[Demonstration] | None,
) -> TrainingParts:
    """Build the trainer of a run, and shard the weights of its team if the configuration says so.

    Args:
        run: The run.
        team: A policy for each agent.
        folder: The run folder.
        demonstrations: Those of the warm start, none if it is over or samples its own; `None` without one.

    Raises:
        RunError: If the environment, the team and the configuration do not fit together, or the run has more or
            fewer processes than shards.
    """
    from llm_decpomdp.algorithms import sources
    from llm_decpomdp.algorithms.rollout_workers.rollout_worker import (
        LocalRolloutWorker,
        WorkerState,
    )
    from llm_decpomdp.algorithms.training.checkpoint_manager import CheckpointManager
    from llm_decpomdp.algorithms.training.evaluation import PeriodicEvaluation
    from llm_decpomdp.algorithms.training.rollout_source import RolloutSource, SampledSource
    from llm_decpomdp.algorithms.training.run_log import RunLog
    from llm_decpomdp.algorithms.training.trainer import Trainer

    config, env, options = run.config, run.train_env, run.trainer
    if options.plan == "chain" and config.env.discount < 1 and config.env.num_turns > 1:
        logger.warning(
            "env.discount=%s has no effect on learning in a chain, which credits each turn with its own "
            "reward; set algorithm.rollout.mode=tree for returns over turns",
            config.env.discount,
        )
    try:
        if config.learner.shards > 1:
            from llm_decpomdp.agents.models.sharded import shard_team

            shard_team(team, config.learner.shards, config.learner.reduce_once)
        phase = None
        if demonstrations is not None:
            phase = sources.make_warm_start(
                env,
                team,
                config.warm_start,
                demonstrations,
                problems=run.sampled_problems,
                max_grad_norm=run.learner.max_grad_norm,
                seed=config.seed,
            )
        learner = run.algorithm.make_learner(team, run.learner, config.seed)
        opponents = remote_worker = None
        if config.sampler.engine == "vllm" or config.cluster.rollout_workers:
            from llm_decpomdp.benchmarks.runs.workers import make_rollout_worker

            remote_worker = make_rollout_worker(run, team)
        worker = remote_worker or LocalRolloutWorker(WorkerState(env, run.eval_env, team))
        if config.algorithm.named_comparator is not None:
            from llm_decpomdp.benchmarks.runs.workers import load_opponents

            opponents = load_opponents(run)
        source: RolloutSource
        if run.pairs:
            from llm_decpomdp.algorithms.preferences.stored import StoredSource, add_tokens

            source = StoredSource(arrange(config, add_tokens(run.pairs, team)))
        else:
            source = SampledSource(env, team, worker, learner, options, run.batches, run.problems)
        source = sources.add_wrappers(
            source,
            env,
            team,
            learner,
            options,
            problems=run.problems,
            opponents=opponents,
            can_prefetch=remote_worker is not None,
        )
        checkpoints, log = CheckpointManager(folder), RunLog(folder)
        # Checkpoints come first: the others continue from the state that these have loaded.
        callbacks = [checkpoints, log, *([phase] if phase else [])]
        callbacks.append(PeriodicEvaluation(run.eval_env, worker, run.eval_starts))
        trainer = Trainer(env, team, learner, source, options, callbacks)
    except (ValueError, TypeError) as error:
        raise RunError(str(error)) from error
    return TrainingParts(trainer, checkpoints, log)
