"""The trainer of a run: its learner, source of rollouts and callbacks, for a loaded team."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks.config.errors import RunError
from llm_decpomdp.benchmarks.runs.setup import ResolvedRun, arrange
from llm_decpomdp.interfaces import Task
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


def skip_long_prompts(run: ResolvedRun, team: Team) -> ResolvedRun:
    """Say how policies read prompts, and leave out the problems whose first prompts are too long for them.

    Raises:
        RunError: If a first prompt is too long for a policy that skips none, or no problem is left.
    """
    from llm_decpomdp.agents.models.causal_lm import CausalLM
    from llm_decpomdp.algorithms.rollouts.checks import (
        describe_prompts,
        long_first_prompts,
        require_short,
    )
    from llm_decpomdp.policy import distinct_policies

    for agents, policy in distinct_policies(team).items():
        if isinstance(policy, CausalLM):
            logger.info("%s: %s", agents, policy.encoder.describe())
    starts = _starts_longest_first(run.train_env.tasks.tasks)
    # Checked before the first update: later prompts are longer only by feedback.
    prompts = long_first_prompts(run.train_env, team, starts, "skip")
    skipped = list(dict.fromkeys(str(prompt.start.task_id) for prompt in prompts))
    if skipped:
        logger.warning(
            "%d of %d training problems are left out, for first prompts are too long: %s",
            *(len(skipped), len(starts), describe_prompts(prompts)),
        )
    if len(skipped) == len(starts):
        raise RunError("no problem is left to train on: make room for longer prompts")
    run = run.skip_tasks(skipped)
    further = run.problems if run.config.algorithm.rollout.refill else []
    in_batches = {start for batch in (*run.batches, further) for start in batch}
    held_out = _starts_longest_first(run.eval_env.tasks.tasks[: run.config.evaluation.num_tasks])
    try:
        require_short(run.train_env, team, [start for start in starts if start in in_batches])
        require_short(run.eval_env, team, held_out)
    except ValueError as error:
        raise RunError(str(error)) from error
    # Evaluations skip no problem, so that all of them measure the same ones.
    if unread := long_first_prompts(run.eval_env, team, held_out, "skip"):
        logger.warning(
            "first prompts of held-out problems are too long, and agents say nothing to them: %s",
            describe_prompts(unread),
        )
    return run


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


def _starts_longest_first(tasks: Iterable[Task]) -> list[Start]:
    """Return the starts of tasks, most text first, as the longest prompts are found early."""
    ordered = sorted(tasks, key=lambda task: len(repr(task)), reverse=True)
    return [Start(task_id=task.task_id) for task in ordered]
