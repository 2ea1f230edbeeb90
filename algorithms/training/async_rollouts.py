"""A fixed lag: updates learn from what the weights of some updates before have sampled.

With a lag k update u learns from rollouts of its own starts, which the weights after update max(0, u - 1 - k)
have sampled: always, and not "whatever has arrived". Sampling and learning may then go on at the same time, and a
run still is a function of its options and its seed. What it learns from is no longer the present policy's own,
which `losses.importance_weights` is for.

Before update u learns, the weights that it changes sample for update u + k, so that k batches wait between two
updates. They are part of a checkpoint.

Degenerate cases: the first k + 1 updates all learn from what the first weights have sampled. The last k updates
sample nothing. If a finished run is to go on for longer, the first updates after the old end have no batch
waiting, and learn from what the present weights sample; `lag` in their rows says so.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.rollouts.rollout import from_text, to_text
from llm_decpomdp.algorithms.rollouts.sampling import Timer
from llm_decpomdp.algorithms.training.rollout_source import (
    RolloutSource,
    SourceWrapper,
    TrainBatch,
    UpdateRequest,
    make_request,
)

logger = logging.getLogger(__name__)


class Waiting(NamedTuple):
    """A batch that waits for its update."""

    batch: TrainBatch
    version: int
    """Number of complete updates of the weights that sampled it."""
    seconds: dict[str, float]
    """Spent on it, by activity."""


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
        super().__init__(source, f"lag={lag}")
        if source.needs_last_update:
            raise ValueError(
                f"{source.needs_last_update} draws by what the last update has played, which with lag={lag} was "
                "sampled before it was known: set lag=0, or drop it"
            )
        self.learner, self.lag, self.can_prefetch = learner, lag, can_prefetch
        self._waiting: dict[int, Waiting] = {}
        self._begun: tuple[UpdateRequest, int] | None = None  # and the version that samples for it
        if learner.options.correction == "none" and learner.uses_sampling_probabilities:
            logger.warning(
                "with lag=%d updates learn from what earlier weights have sampled, as if the present ones had: "
                "set correction=truncate",
                lag,
            )

    def sample(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Return the rollouts of an update, and let the present weights sample for a later one.

        The timer is given the seconds that were spent on what is returned.
        """
        update, version = request.update, request.update - 1
        newest = min(update + self.lag, len(self.batches))
        self._waiting = {of: batch for of, batch in self._waiting.items() if of >= update}
        for earlier in range(update, newest):  # none but in the first update and after an old end
            self._sample(self._request(earlier, request.size), version)
        last = self._request(newest, request.size)
        self._begun = (last, version)
        if self.can_prefetch and newest > update:
            self.source.prefetch(last)
        else:
            self.finish()
        batch, version, seconds = self._waiting[update]
        for activity, number in seconds.items():
            timer.seconds[activity] = timer.seconds.get(activity, 0.0) + number
        return replace(batch, metrics={**batch.metrics, "lag": update - 1 - version})

    def _request(self, update: int, size: int | None) -> UpdateRequest:
        return make_request(update, self.batches[update - 1], size)

    def metrics(self, batch: TrainBatch) -> dict[str, float]:
        """Return what was measured when the batch was sampled, and how old its weights are."""
        return batch.metrics

    def finish(self) -> None:
        """Sample what was begun to its end, with the weights that have begun it."""
        if self._begun is not None:
            self._sample(*self._begun)
            self._begun = None

    def _sample(self, request: UpdateRequest, version: int) -> None:
        """Sample the batch of an update, unless it waits already."""
        if request.update not in self._waiting:
            timer = Timer()
            batch = self.source.sample(request, timer)
            # Collected now, as only the first process writes the checkpoint that the batch may be part of.
            batch.gather(request.size)
            if processes.rank() == 0:
                batch.metrics = self.source.metrics(batch)
            self._waiting[request.update] = Waiting(batch, version, timer.seconds)

    def state_dict(self) -> dict[str, Any]:
        """Return what waits after the last complete update, in the first process: text, numbers and containers.

        Before the first update nothing waits: a run that goes on from there samples it again.
        """
        update = self.learner.updates
        last = min(update + self.lag, len(self.batches)) if update else 0
        return {"batches": [self._row(of) for of in range(update + 1, last + 1)]}

    def _row(self, update: int) -> dict[str, Any]:
        batch, version, seconds = self._waiting[update]
        return {
            "update": update,
            "version": version,
            "seconds": seconds,
            "metrics": batch.metrics,
            "texts": list(map(to_text, batch.rollouts)),
            "shares": [list(share) for share in batch.shares],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value.

        Raises:
            ValueError: If it is of another number of processes, or an earlier version.
        """
        rank, size = processes.rank(), processes.world_size()
        self._begun, self._waiting = None, {}
        for row in state["batches"]:
            shares = row["shares"]
            if len(shares) != size:
                raise ValueError(
                    f"the batches that wait (lag={self.lag}) are those of {len(shares)} processes, and there are "
                    f"{size}: go on in as many"
                )
            if "texts" not in row:
                raise ValueError(
                    "the batches that wait (lag) are of an earlier version of llm_decpomdp: finish the run with "
                    "that one, or begin anew"
                )
            rollouts = list(map(from_text, row["texts"]))
            batch = TrainBatch([[rollouts[place] for place in shares[rank]]])
            if rank == 0:
                batch.rollouts, batch.shares, batch.metrics = rollouts, shares, row["metrics"]
            self._waiting[row["update"]] = Waiting(batch, row["version"], row["seconds"])
