"""Where the rollouts of an update come from.

`SampledSource` samples them in this process. Rollout workers take its place (`worker_source.py`), and optional
features are wrappers of a source (`SourceWrapper`), which `algorithms/sources.py` adds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeVar

import numpy as np

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.rollouts.checks import RunCost, check_starts, run_cost
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.play import gather_weights, seed_update
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, TextEnv, Timer
from llm_decpomdp.algorithms.rollouts.rollout_options import TrainerOptions
from llm_decpomdp.algorithms.training.callbacks import TrainerCallback
from llm_decpomdp.policy import Team

Item = TypeVar("Item")

NumberedBatch = tuple[int, tuple[Start, ...]]
"""A rollout batch: its index among those of all processes, and its starts, perhaps none."""


@dataclass(frozen=True)
class UpdateRequest:
    """Starts of an update, each of which is sampled once."""

    update: int
    """Counted from 1."""
    starts: Sequence[Start]
    """The starts of all processes."""
    size: int | None = None
    """Largest number of starts of a rollout batch; `None` for one rollout batch of each process."""
    replacements: Sequence[Sequence[Start]] = ()
    """In a round of dynamic sampling, what this process samples instead, by rollout batch."""
    round: int = 0
    """Round of dynamic sampling; 0 for the starts that an update begins with."""

    @property
    def shard(self) -> list[NumberedBatch]:
        """The rollout batches of this process."""
        if not self.round:
            return shard_starts(self.starts, self.size)
        first, step = processes.rank(), processes.world_size()
        return [(first + step * n, tuple(starts)) for n, starts in enumerate(self.replacements)]


def shard_starts(starts: Sequence[Start], size: int | None) -> list[NumberedBatch]:
    """Return the rollout batches of this process for an update or evaluation."""
    return processes.shard(list(enumerate(split_into_batches(starts, size))))


def split_into_batches(starts: Sequence[Start], size: int | None) -> list[tuple[Start, ...]]:
    """Split the starts of an update or evaluation into the batches of all processes.

    A batch has `size` starts, the last one perhaps fewer. With `None` there is one for each process, which takes
    every n-th start of n processes and may be empty.
    """
    if size is None:
        shares = processes.world_size()
        return [tuple(starts[rank::shares]) for rank in range(shares)]
    return [tuple(starts[first : first + size]) for first in range(0, len(starts), size)]


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
        first, *later = [gather_to_rank0(sampled, size) for sampled in self.rounds]
        self.rollouts = [*first, *chain.from_iterable(later)]
        self.num_resampled = sum(map(len, later))
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
    source: RolloutSource | None = None
    """The source that this one wraps, if it is a `SourceWrapper`; by default it does what that one does."""

    @abstractmethod
    def collect(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Return the rollouts of a request; the timer is given the seconds of each activity."""

    def metrics(self, batch: TrainBatch) -> dict[str, float]:
        """Return metrics of a batch that was gathered; the first process alone calls this."""
        return self.source.metrics(batch) if self.source else {}

    def training_view(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Return rollouts as the learner is given them."""
        return self.source.training_view(rollouts) if self.source else list(rollouts)

    def prefetch(self, request: UpdateRequest) -> None:
        """Optionally start sampling the next request in the background."""
        if self.source:
            self.source.prefetch(request)

    def finish(self) -> None:
        """Complete what was begun for later updates: the weights are about to change."""
        if self.source:
            self.source.finish()

    def close(self) -> None:
        """End processes and servers that were started; the next request starts them again."""
        if self.source:
            self.source.close()


def gather_to_rank0(rolled: Sequence[Sequence[Item]], size: int | None) -> list[Item]:
    """Gather the rollouts of all processes in rank 0, in the order of their starts; others get an empty list.

    `rolled` has the rollouts of each batch of this process; `size` is as for `split_into_batches`.
    """
    parts = rolled if size is not None else [[rollout] for batch in rolled for rollout in batch]
    return [rollout for part in processes.gather_to_first(parts) for rollout in part]


@dataclass(eq=False, repr=False)
class SampledSource(RolloutSource):
    """Rollouts that are sampled in this process, with the current weights.

    Raises:
        ValueError: If a batch is empty, a rollout would be absurdly large, rollout batches cannot be sampled in
            any order, or a first prompt is too long for its policy.
    """

    env: TextEnv
    team: Team
    """A policy for each agent."""
    learner: BaseLearner
    """Says whether a critic reads the states."""
    options: TrainerOptions
    """How to sample."""
    batches: Sequence[Sequence[Start]]
    problems: Sequence[Start] = ()
    """Further starts, which dynamic sampling and curricula draw from."""

    in_workers = False
    """Whether other processes share the rollout batches."""

    def __post_init__(self) -> None:
        env, team, learner = self.env, self.team, self.learner
        options, batches = self.options, self.batches
        if not batches or not all(batches):
            raise ValueError(
                f"each update needs a batch of at least one start, got {len(batches)} batches "
                f"with {[len(batch) for batch in batches][:10]} starts"
            )
        further = self.problems if options.max_resample_rounds or options.curriculum else ()
        self.starts = list(dict.fromkeys(chain(*batches, further)))
        self._rng: np.random.Generator | None = None
        size = options.rollout_batch_size
        learner.algorithm.check_rollouts(team, learner.options, options, options.group_size)
        self.cost = run_cost(env, options, options.group_size, batches)
        check_starts(env, team, self.starts, size, self.in_workers)
        number = -(-max(map(len, batches)) // (size or 1))
        processes.warn_of_idle(number, "rollout batches" if size else "starts")

    def collect(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Sample the starts of this process."""
        batches, size = request.shard, request.size
        shard = self._sample(request, batches, timer)
        if size is not None:
            shard = [
                [replace(rollout, place=index * size + n) for n, rollout in enumerate(rollouts)]
                for (index, _), rollouts in zip(batches, shard, strict=True)
            ]
        return TrainBatch(shard, [shard])

    def _sample(
        self, request: UpdateRequest, batches: Sequence[NumberedBatch], timer: Timer
    ) -> list[list[Rollout]]:
        """Sample a rollout from each start of each rollout batch."""
        sampled: list[list[Rollout]] = []
        options, update, round = self.options, request.update, request.round
        with gather_weights(self.team):
            for index, starts in batches:
                if not starts:
                    sampled.append([])
                    continue
                self._rng = seed_update(
                    self.env, self.team, options, update, index, round, self._rng
                )
                rollouts = collect_rollouts(
                    self.env,
                    self.team,
                    starts,
                    options,
                    group_size=options.group_size,
                    rng=self._rng,
                    timer=timer,
                    views=self.learner.critic is not None,
                )
                sampled.append(rollouts)
        return sampled


class SourceWrapper(RolloutSource):
    """A source around another one, which it changes in one respect; `option` asks for it.

    Raises:
        ValueError: If the other one samples nothing.
    """

    source: RolloutSource

    def __init__(self, source: RolloutSource, option: str) -> None:
        if not source.is_sampled:
            raise ValueError(
                f"{option} means nothing with stored rollouts, as nothing is sampled: drop it"
            )
        self.source = source
        self.batches, self.starts = source.batches, source.starts
        self.cost = source.cost
        self.needs_last_update = source.needs_last_update


def chain_of_sources(source: RolloutSource) -> Iterator[RolloutSource]:
    """Yield a source and those that it wraps, from the outermost on."""
    current: RolloutSource | None = source
    while current is not None:
        yield current
        current = current.source
