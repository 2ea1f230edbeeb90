"""Evaluations during training: episodes that the present policies play from the same starts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollouts.checks import check_starts, evaluation_cost
from llm_decpomdp.algorithms.rollouts.play import gather_weights, play_episodes, seed_streams
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, TextEnv, Timer
from llm_decpomdp.algorithms.training import metrics
from llm_decpomdp.algorithms.training.callbacks import TrainerCallback, defer_signals
from llm_decpomdp.algorithms.training.rollout_source import (
    NumberedBatch,
    gather_to_rank0,
    shard_starts,
)

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.training.trainer import Trainer

logger = logging.getLogger(__name__)


class PeriodicEvaluation(TrainerCallback):
    """Plays an episode from each of some starts: before the first update, after the last, and every few updates.

    All evaluations sample with the same random numbers, so that two of them differ by the weights alone. Training
    does not depend on them.

    Args:
        env: The environment of evaluations.
        starts: One for each episode, in order; with none nothing is evaluated.
    """

    in_workers = False
    """Whether other processes share the episodes."""

    def __init__(self, env: TextEnv, starts: Sequence[Start]) -> None:
        self.env, self.starts = env, starts

    def on_init_end(self, trainer: Trainer) -> None:
        """Check that the starts fit the options and the team.

        Raises:
            ValueError: If the best policies are to be kept without evaluations, or a first prompt is too long.
        """
        options = trainer.options
        if options.keep_best and not self.starts:
            raise ValueError("keep_best compares evaluations, and there are no eval_starts")
        size = options.rollout_batch_size
        check_starts(self.env, trainer.team, self.starts, size, self.in_workers)
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
        timer = Timer()
        batches = [batch for batch in shard_starts(self.starts, self.size) if batch[1]]
        episodes = gather_to_rank0(self._play(trainer, batches, timer), self.size)
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

    def _play(
        self, trainer: Trainer, batches: Sequence[NumberedBatch], timer: Timer
    ) -> list[list[Rollout]]:
        """Play the episodes of rollout batches."""
        team, episodes = trainer.team, []
        with gather_weights(team):
            for index, starts in batches:
                # No update in the names: evaluations differ by the weights alone.
                seed_streams(self.env, team, trainer.options.seed, "evaluation", index=index)
                size = self.at_a_time
                episodes.append(play_episodes(self.env, team, starts, size, timer))
        return episodes
