"""Callbacks of the trainer, with the method names of Hugging Face's `TrainerCallback`, and evaluations.

The order of one update, and what each hook may rely on:

1. `on_optimizer_step`: weights have changed. What learns besides the policies changes here, and may add metrics.
2. `on_log`: the row of the update is written.
3. `on_update_end`: weights, state and rows are those of one complete update. Signals wait until here.
4. `on_step_end`: checkpoints and evaluations, which may be interrupted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollout_workers.rollout_worker import (
    EvaluationBatch,
    WeightSync,
    check_rollout_worker,
    gather_to_rank0,
    split_into_batches,
)
from llm_decpomdp.algorithms.rollouts.cost import evaluation_cost
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.long_prompts import require_short
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.sampling import Timer
from llm_decpomdp.algorithms.training import metrics
from llm_decpomdp.algorithms.training.interruption import defer_signals

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.training.rollout_source import TrainBatch
    from llm_decpomdp.algorithms.training.trainer import Trainer


class TrainerCallback:
    """Does nothing at each event of a run; subclasses override what they need.

    Callbacks are called in the order in which the trainer was given them, in all processes of a run.
    """

    state_key: str | None = None
    """Key of `state_dict` in checkpoints; `None` for callbacks without a state."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """JSON-able values that must be the same when the run is resumed, by name."""
        return {}

    def on_init_end(self, trainer: Trainer) -> None:
        """The trainer was built."""

    def on_resume(self, trainer: Trainer) -> None:
        """The run continues from a checkpoint; the first callback that has one loads it."""

    def on_train_begin(self, trainer: Trainer) -> None:
        """Before the first update of this session."""

    def on_optimizer_step(self, trainer: Trainer, batch: TrainBatch, row: dict[str, Any]) -> None:
        """Weights have changed.

        Args:
            trainer: The trainer.
            batch: The rollouts of the update, collected in the first process.
            row: The metrics of the update, to which more may be added.
        """

    def on_log(
        self, trainer: Trainer, row: Mapping[str, Any], rollouts: Sequence[Rollout] = ()
    ) -> None:
        """A row of metrics is complete; `update` and `kind` are among its keys.

        Args:
            trainer: The trainer.
            row: The row.
            rollouts: The rollouts or episodes that it is of, in the first process.
        """

    def on_update_end(self, trainer: Trainer) -> None:
        """An update, or a step of the warm start, is complete."""

    def on_step_end(self, trainer: Trainer) -> None:
        """After an update, or a step of the warm start."""

    def on_evaluate(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        """An evaluation is over and written."""

    def on_save(self, trainer: Trainer) -> None:
        """A checkpoint was written."""

    def on_exception(self, trainer: Trainer, failure: BaseException) -> None:
        """The run ends with a failure or a signal; may raise an error that explains it better."""

    def on_train_end(self, trainer: Trainer) -> None:
        """The session is over, whether by the last update or by a failure."""

    def state_dict(self) -> dict[str, Any]:
        """Return what the run needs to continue exactly: tensors, numbers, strings and containers of them."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value, after the policies' weights were loaded."""


class PeriodicEvaluation(TrainerCallback):
    """Plays an episode from each of some starts: before the first update, after the last, and every few updates.

    All evaluations sample with the same random numbers, so that two of them differ by the weights alone. Training
    does not depend on them.

    Args:
        env: The environment of evaluations.
        workers: Plays the episodes, with the present weights.
        starts: One for each episode, in order; with none nothing is evaluated.
    """

    def __init__(self, env: TextEnv, workers: WeightSync, starts: Sequence[Start]) -> None:
        self.env, self.workers, self.starts = env, workers, starts

    def on_init_end(self, trainer: Trainer) -> None:
        """Check that the starts fit the options and the team.

        Raises:
            ValueError: If the best policies are to be kept without evaluations, or a first prompt is too long.
        """
        options = trainer.options
        if options.keep_best and not self.starts:
            raise ValueError("keep_best compares evaluations, and there are no eval_starts")
        size = options.starts_per_bundle
        check_rollout_worker(self.workers.rollout_worker, size, trainer.team, self.starts)
        require_short(self.env, trainer.team, self.starts)
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
        if trainer.options.evaluates(trainer.learner.updates, len(trainer.source.batches)):
            self.evaluate(trainer)

    def evaluate(self, trainer: Trainer, kind: str = "eval") -> dict[str, Any]:
        """Play the episodes, write them down, and return the metrics.

        Args:
            trainer: The trainer.
            kind: Of any other kind than `eval` no episodes are kept, and the team is none of the best.
        """
        if not self.starts:
            return {}
        episodes, row = self.play(trainer.options.seed)
        # A signal between the row and the best policies would leave a row that no policies belong to.
        with defer_signals():
            trainer.log(kind, row, episodes if kind == "eval" else ())
            if kind == "eval":
                trainer.notify("on_evaluate", row)
        return row

    def play(self, seed: int) -> tuple[list[Rollout], dict[str, Any]]:
        """Play an episode from each start.

        Returns:
            All episodes, in the first process, and their metrics, in all.
        """
        timer, indexed = Timer(), enumerate(split_into_batches(self.starts, self.size))
        rollout_batches = [
            EvaluationBatch(seed, index, part, self.at_a_time)
            for index, part in processes.shard(list(indexed))
            if part
        ]
        episodes = gather_to_rank0(self.workers.sample(rollout_batches, timer), self.size)
        row = processes.compute_on_first(
            lambda: {
                **metrics.evaluation_metrics(episodes),
                "tokens": metrics.count_tokens(episodes),
                **{f"{activity}_seconds": seconds for activity, seconds in timer.seconds.items()},
            }
        )
        return episodes, row

    def on_resume(self, trainer: Trainer) -> None:
        """Give the workers the weights of the checkpoint, whatever they had before."""
        self.workers.reload()

    def on_train_end(self, trainer: Trainer) -> None:
        """End what the workers have started."""
        self.workers.close()
