"""Evaluations during training: episodes that the present policies play from the same starts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollout_workers.base import RolloutBatch, RolloutWorker, WorkerState
from llm_decpomdp.algorithms.rollout_workers.rollout_worker import seed_streams, split_into_batches
from llm_decpomdp.algorithms.rollouts.checks import check_starts, evaluation_cost
from llm_decpomdp.algorithms.rollouts.play import play_episodes
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, TextEnv, Timer
from llm_decpomdp.algorithms.training import metrics
from llm_decpomdp.algorithms.training.callbacks import TrainerCallback, defer_signals
from llm_decpomdp.algorithms.training.rollout_source import gather_to_rank0

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.training.trainer import Trainer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EvaluationBatch(RolloutBatch):
    """A part of an evaluation; all evaluations sample with the same random numbers."""

    at_a_time: int
    """Episodes that are played at the same time."""

    @property
    def purpose(self) -> str:
        """Name of the update or evaluation, for messages."""
        return "an evaluation"

    def play(self, state: WorkerState, timer: Timer) -> list[Rollout]:
        """Play an episode from each start."""
        # No update in the names: evaluations differ by the weights alone, which makes their comparison paired.
        seed_streams(state.eval_env, state.team, self.seed, "evaluation", index=self.index)
        return play_episodes(
            state.eval_env, state.team, self.starts, at_a_time=self.at_a_time, timer=timer
        )


class PeriodicEvaluation(TrainerCallback):
    """Plays an episode from each of some starts: before the first update, after the last, and every few updates.

    All evaluations sample with the same random numbers, so that two of them differ by the weights alone. Training
    does not depend on them.

    Args:
        env: The environment of evaluations.
        worker: Plays the episodes, with the present weights.
        starts: One for each episode, in order; with none nothing is evaluated.
    """

    def __init__(self, env: TextEnv, worker: RolloutWorker, starts: Sequence[Start]) -> None:
        self.env, self.worker, self.starts = env, worker, starts

    def on_init_end(self, trainer: Trainer) -> None:
        """Check that the starts fit the options and the team, and let the worker follow the trainer's weights.

        Raises:
            ValueError: If the best policies are to be kept without evaluations, or a first prompt is too long.
        """
        self.worker.track(trainer.learner.policies, lambda: trainer.version)
        options = trainer.options
        if options.keep_best and not self.starts:
            raise ValueError("keep_best compares evaluations, and there are no eval_starts")
        size = options.rollout_batch_size
        check_starts(self.env, trainer.team, self.starts, size, self.worker.in_workers)
        batches = trainer.source.batches
        largest = size or -(-max(map(len, batches)) // processes.world_size())
        # As many completions at a time as in the largest update, so that both fit the same memory.
        self.at_a_time = options.group_size * largest
        self.size = None if size is None else self.at_a_time
        self.cost = evaluation_cost(self.env, len(self.starts) * options.evaluations(len(batches)))
        """Upper bound of the cost of all evaluations of the run; `None` where it isn't known."""

    def on_train_begin(self, trainer: Trainer) -> None:
        """Evaluate the team before training, or again after the update that the run continues from."""
        if processes.rank() == 0 and self.starts and self.cost:
            logger.info("evaluations: at most %s", self.cost)
        # A checkpoint is written before the evaluation of its update, whose rows resuming has dropped.
        self._evaluate_if_due(trainer)

    def on_step_end(self, trainer: Trainer) -> None:
        """Evaluate every few updates, and after the last."""
        if trainer.learner.updates:
            self._evaluate_if_due(trainer)

    def _evaluate_if_due(self, trainer: Trainer) -> None:
        if trainer.options.evaluates(trainer.learner.updates, trainer.total):
            self.evaluate(trainer)

    def evaluate(self, trainer: Trainer, kind: str = "eval") -> dict[str, Any]:
        """Play the episodes, log them, and return the metrics.

        Args:
            trainer: The trainer.
            kind: Kind of the row. Only `eval` stores episodes and can update the best checkpoint.
        """
        if not self.starts:
            return {}
        timer, indexed = Timer(), enumerate(split_into_batches(self.starts, self.size))
        rollout_batches = [
            EvaluationBatch(trainer.options.seed, index, starts, self.at_a_time)
            for index, starts in processes.shard(list(indexed))
            if starts
        ]
        self.worker.synchronize()
        episodes = gather_to_rank0(self.worker.run_batches(rollout_batches, timer), self.size)
        row: dict[str, Any] = processes.compute_on_first(
            lambda: {
                **metrics.evaluation_metrics(episodes),
                "tokens": metrics.count_tokens(episodes),
                **{f"{activity}_seconds": seconds for activity, seconds in timer.seconds.items()},
            }
        )
        # A signal between the row and the best policies would leave a row that no policies belong to.
        with defer_signals():
            trainer.log(kind, row, episodes if kind == "eval" else ())
            if kind == "eval":
                trainer.notify("on_evaluate", row)
        return row

    def on_resume(self, trainer: Trainer) -> None:
        """Give the worker the weights of the checkpoint."""
        self.worker.reload()

    def on_train_end(self, trainer: Trainer) -> None:
        """End what the worker has started."""
        self.worker.close()
