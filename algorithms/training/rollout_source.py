"""The rollouts of an update from all processes, and the base classes of what gives or changes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollout_workers.rollout_worker import UpdateRequest
from llm_decpomdp.algorithms.rollouts.checks import RunCost
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, Timer
from llm_decpomdp.algorithms.training.callbacks import TrainerCallback

Item = TypeVar("Item")


def chain_of_sources(source: RolloutSource) -> Iterator[RolloutSource]:
    """Yield a source and those that it wraps, from the outermost on."""
    current: RolloutSource | None = source
    while current is not None:
        yield current
        current = getattr(current, "source", None)


@dataclass
class TrainBatch:
    """The rollouts of an update."""

    shard: list[list[Rollout]]
    """The rollouts that this process learns from, by rollout batch."""
    rounds: list[list[list[Rollout]]] = field(default_factory=list)
    """Everything that this process has sampled, by round and rollout batch, until `gather` collects it."""
    rollouts: list[Rollout] = field(default_factory=list)
    """Everything that all processes have sampled, in the first process: the first round, then later rounds."""
    num_resampled: int = 0
    """Number of the rollouts of later rounds, in the first process."""
    shards: Sequence[Sequence[int]] = ()
    """Positions in `rollouts` of what each process learns from, in the first process."""
    metrics: dict[str, float] = field(default_factory=dict)
    """What a source has measured while it sampled."""

    @property
    def train_rollouts(self) -> list[Rollout]:
        """The rollouts that this process learns from."""
        return list(chain.from_iterable(self.shard))

    def gather(self, size: int | None) -> None:
        """Collect what all processes have sampled in the first one; all processes call this once."""
        if not self.rounds:  # stored, or collected before
            return
        rank = processes.rank()
        places = {id(rollout): place for place, rollout in enumerate(self.train_rollouts)}
        collected = [
            gather_to_rank0(
                [[(rollout, rank, places.get(id(rollout))) for rollout in of] for of in sampled],
                size,
            )
            for sampled in self.rounds
        ]
        everything = list(chain.from_iterable(collected))
        self.rollouts = [rollout for rollout, _, _ in everything]
        self.num_resampled = sum(map(len, collected[1:]))
        shards: list[dict[int, int]] = [{} for _ in range(processes.world_size())]
        for position, (_, process, place) in enumerate(everything):
            if place is not None:
                shards[process][place] = position
        self.shards = [[shard[place] for place in sorted(shard)] for shard in shards]
        self.rounds = []


class RolloutSource(TrainerCallback, ABC):
    """Gives the rollouts of each update. As a callback it may keep a state and learn from each update."""

    batches: Sequence[Sequence[Start]]
    """Starts of each update of the run."""
    starts: Sequence[Start] = ()
    """All starts that may be sampled."""
    cost: RunCost | None = None
    """Upper bound of the cost of all sampling; `None` where nothing is known of it."""
    is_sampled = True
    """False if nothing is sampled, and nothing costs anything."""
    needs_last_update: str | None = None
    """The option by which starts depend on what the last update has sampled; `None` if they don't."""

    @abstractmethod
    def collect(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Return the rollouts of a request; the timer is given the seconds of each activity."""

    def metrics(self, batch: TrainBatch) -> dict[str, float]:
        """Return metrics of a batch that was gathered; the first process alone calls this."""
        return {}

    def training_view(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Return rollouts as the learner is given them."""
        return list(rollouts)

    def prefetch(self, request: UpdateRequest) -> None:
        """Optionally start sampling the next request in the background."""

    def finish(self) -> None:
        """Complete what was begun for later updates: the weights are about to change."""

    def close(self) -> None:
        """End processes and servers that were started; the next request starts them again."""


def gather_to_rank0(rolled: Sequence[Sequence[Item]], size: int | None) -> list[Item]:
    """Gather the rollouts of all processes in rank 0, in the order of their starts; others get an empty list.

    `rolled` has the rollouts of each batch of this process; `size` is as for `split_into_batches`.
    """
    parts = rolled if size is not None else [[rollout] for batch in rolled for rollout in batch]
    return [rollout for part in processes.gather_to_first(parts) for rollout in part]


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
