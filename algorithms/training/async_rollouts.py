"""Asynchronous rollouts with a fixed lag: updates learn from rollouts of earlier weights.

With a lag k update u learns from rollouts of its own starts that the weights after update max(0, u - 1 - k) have
sampled. The lag never depends on speed, so sampling and learning may overlap, and a run still is a function of its
options and its seed. The rollouts are off-policy, which `importance_sampling.importance_weights` is for.

Before update u learns, the weights that it changes sample for update u + k, so that k batches wait between two
updates. They are part of a checkpoint.

Degenerate cases: the first k + 1 updates all learn from rollouts of the first weights. The last k updates sample
nothing. If a finished run continues for longer, no batch waits for the first updates after the old end. They learn
from rollouts of the present weights, and `lag` in their rows is 0.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.rollouts.rollout import Timer
from llm_decpomdp.algorithms.rollouts.serialization import from_text, to_text
from llm_decpomdp.algorithms.training.rollout_source import (
    RolloutSource,
    SourceWrapper,
    TrainBatch,
    UpdateRequest,
    gather_to_rank0,
)

logger = logging.getLogger(__name__)


def check_lag(source: RolloutSource, learner: BaseLearner, lag: int) -> None:
    """Warn of a learner that does not correct for earlier weights.

    Raises:
        ValueError: If starts depend on what the last update has sampled.
    """
    if source.needs_last_update:
        raise ValueError(
            f"{source.needs_last_update} draws by what the last update has played, which with "
            f"max_async_level={lag} was sampled before it was known: set max_async_level=0, or drop it"
        )
    if learner.options.importance_sampling.mode == "none" and learner.uses_sampling_probabilities:
        logger.warning(
            "with max_async_level=%d updates learn from rollouts of earlier weights as if the present ones had "
            "sampled them: set importance_sampling.mode=truncate",
            lag,
        )


class Waiting(NamedTuple):
    """A batch that waits for its update."""

    batch: TrainBatch
    version: int  # number of complete updates of the weights that sampled it
    seconds: dict[str, float]  # spent on it, by activity
    shards: Sequence[Sequence[int]]  # from `find_shards`


class AsyncSource(SourceWrapper):
    """Rollouts of earlier weights.

    Args:
        source: Samples them.
        learner: Learns from them.
        lag: k, at least 1.
        can_prefetch: Whether the source may begin with a batch while the update before learns. Then no weight may
            change before `finish`.
    """

    state_key = "waiting"

    def __init__(
        self, source: RolloutSource, learner: BaseLearner, lag: int, can_prefetch: bool = False
    ) -> None:
        super().__init__(source, f"max_async_level={lag}")
        check_lag(source, learner, lag)
        self.learner, self.lag, self.can_prefetch = learner, lag, can_prefetch
        self._waiting: dict[int, Waiting] = {}
        self._begun: tuple[UpdateRequest, int] | None = None  # and the version that samples for it

    def collect(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Return the rollouts of an update, and let the present weights sample for a later one.

        The timer adds up the seconds that were spent on the rollouts that are returned.
        """
        update, version = request.update, request.update - 1
        newest = min(update + self.lag, len(self.batches))
        self._waiting = {of: batch for of, batch in self._waiting.items() if of >= update}
        # Only in the first update, and after the old end of a run that continues for longer.
        for earlier in range(update, newest):
            self._collect(
                replace(request, update=earlier, starts=self.batches[earlier - 1]), version
            )
        last = replace(request, update=newest, starts=self.batches[newest - 1])
        self._begun = (last, version)
        if self.can_prefetch and newest > update:
            self.source.prefetch(last)
        else:
            self.finish()
        batch, version, seconds, _ = self._waiting[update]
        for activity, number in seconds.items():
            timer.seconds[activity] = timer.seconds.get(activity, 0.0) + number
        return replace(batch, metrics={**batch.metrics, "lag": update - 1 - version})

    def metrics(self, batch: TrainBatch) -> dict[str, float]:
        """Return the metrics from the time of sampling, and the age of the weights."""
        return batch.metrics

    def finish(self) -> None:
        """Complete the batch that was begun, with the weights that have begun it."""
        if self._begun is not None:
            self._collect(*self._begun)
            self._begun = None

    def _collect(self, request: UpdateRequest, version: int) -> None:
        """Sample the batch of an update, unless it waits already."""
        if request.update not in self._waiting:
            timer = Timer()
            batch = self.source.collect(request, timer)
            shards = find_shards(batch, request.size)
            # Collected now, as only the first process writes the checkpoint that the batch may be part of.
            batch.gather(request.size)
            if processes.rank() == 0:
                batch.metrics = self.source.metrics(batch)
            self._waiting[request.update] = Waiting(batch, version, timer.seconds, shards)

    def state_dict(self) -> dict[str, Any]:
        """Return what waits after the last complete update, in the first process: text, numbers and containers.

        Before the first update nothing waits: a run that goes on from there samples it again.
        """
        newest, rows = self.learner.updates, []
        last = min(newest + self.lag, len(self.batches)) if newest else 0
        for update in range(newest + 1, last + 1):
            batch, version, seconds, shards = self._waiting[update]
            row = {"update": update, "version": version, "seconds": seconds}
            row |= {"metrics": batch.metrics, "texts": list(map(to_text, batch.rollouts))}
            rows.append({**row, "shares": [list(shard) for shard in shards]})
        return {"batches": rows}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value.

        Raises:
            ValueError: If it is of another number of processes, or an earlier version.
        """
        rank, size = processes.rank(), processes.world_size()
        self._begun, self._waiting = None, {}
        for row in state["batches"]:
            shards = row["shares"]
            if len(shards) != size:
                raise ValueError(
                    f"the batches that wait (max_async_level={self.lag}) are those of {len(shards)} processes, "
                    f"and there are {size}: go on in as many"
                )
            if "texts" not in row:
                raise ValueError(
                    "the batches that wait (lag) are of an earlier version of llm_decpomdp: finish the run with "
                    "that one, or begin anew"
                )
            rollouts = list(map(from_text, row["texts"]))
            batch = TrainBatch([[rollouts[place] for place in shards[rank]]])
            if rank == 0:
                batch.rollouts, batch.metrics = rollouts, row["metrics"]
            self._waiting[row["update"]] = Waiting(batch, row["version"], row["seconds"], shards)


def find_shards(batch: TrainBatch, size: int | None) -> list[list[int]]:
    """Return the positions in `TrainBatch.rollouts` of what each process learns from, in the first process."""
    rank = processes.rank()
    places = {id(rollout): place for place, rollout in enumerate(batch.train_rollouts)}
    owners: list[tuple[int, int | None]] = []
    for sampled in batch.rounds:
        owned = [[(rank, places.get(id(rollout))) for rollout in of] for of in sampled]
        owners += gather_to_rank0(owned, size)
    shards: list[dict[int, int]] = [{} for _ in range(processes.world_size())]
    for position, (process, place) in enumerate(owners):
        if place is not None:
            shards[process][place] = position
    return [[shard[place] for place in sorted(shard)] for shard in shards]
