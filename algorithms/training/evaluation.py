"""Evaluations of a run: an episode from each start, played by the rollout worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollout_workers.rollout_worker import (
    EvaluationBatch,
    WeightSync,
    gather_to_rank0,
    split_into_batches,
)
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.sampling import Timer
from llm_decpomdp.algorithms.training import metrics
from llm_decpomdp.algorithms.training.trainer_options import TrainerOptions


class Evaluated(NamedTuple):
    """The end of an evaluation."""

    episodes: list[Rollout]
    """All of them in the first process, none in the others."""
    row: dict[str, Any]
    """The metrics, in all processes."""


class Evaluation:
    """The evaluations of a run.

    Args:
        rollout_worker: Plays them.
        options: How to sample.
        batches: Starts of each update: as many completions are sampled at a time as in the largest of them, or in
            a bundle, so that they fit the same memory.
        starts: One for each episode, in order.
    """

    def __init__(
        self,
        rollout_worker: WeightSync,
        options: TrainerOptions,
        batches: Sequence[Sequence[Start]],
        starts: Sequence[Start],
    ) -> None:
        size = options.starts_per_bundle
        largest = size or -(-max(map(len, batches)) // processes.world_size())
        self.rollout_worker = rollout_worker
        self.seed = options.seed
        self.at_a_time = options.group_size * largest
        self.size = None if size is None else self.at_a_time
        self.starts = starts

    def play(self) -> Evaluated:
        """Play an episode from each start."""
        timer, indexed = Timer(), enumerate(split_into_batches(self.starts, self.size))
        rollout_batches = [
            EvaluationBatch(self.seed, index, part, self.at_a_time)
            for index, part in processes.shard(list(indexed))
            if part
        ]
        episodes = gather_to_rank0(self.rollout_worker.sample(rollout_batches, timer), self.size)
        row = processes.compute_on_first(
            lambda: {
                **metrics.evaluation_metrics(episodes),
                "tokens": metrics.count_tokens(episodes),
                **{f"{activity}_seconds": seconds for activity, seconds in timer.seconds.items()},
            }
        )
        return Evaluated(episodes, row)
