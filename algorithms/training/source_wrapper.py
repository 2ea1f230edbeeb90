"""The base class of sources that change another source in one respect."""

from __future__ import annotations

from collections.abc import Sequence

from llm_decpomdp.algorithms.rollout_workers.rollout_worker import UpdateRequest
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Timer
from llm_decpomdp.algorithms.training.rollout_source import RolloutSource, TrainBatch


class SourceWrapper(RolloutSource):
    """A source around another one, which it changes in one respect; `option` asks for it.

    Raises:
        ValueError: If the other one samples nothing.
    """

    def __init__(self, source: RolloutSource, option: str) -> None:
        if not source.is_sampled:
            raise ValueError(
                f"{option} means nothing with stored rollouts, as nothing is sampled: drop it"
            )
        self.source = source
        self.batches, self.starts = source.batches, source.starts
        self.cost = source.cost
        self.needs_last_update = source.needs_last_update

    def collect(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Return what the other source samples."""
        return self.source.collect(request, timer)

    def metrics(self, batch: TrainBatch) -> dict[str, float]:
        """Return the metrics of the other source."""
        return self.source.metrics(batch)

    def training_view(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Return rollouts as the other source gives them to the learner."""
        return self.source.training_view(rollouts)

    def prefetch(self, request: UpdateRequest) -> None:
        """Let the other source begin with a request."""
        self.source.prefetch(request)

    def finish(self) -> None:
        """Let the other source complete what it has begun."""
        self.source.finish()

    def close(self) -> None:
        """End what the other source has started."""
        self.source.close()
