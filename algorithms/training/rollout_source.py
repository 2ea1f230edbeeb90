"""The rollouts of updates: `SampledSource` samples the starts of an update.

Optional features are wrappers of a source (`source_wrapper.py`), which `algorithms/sources.py` adds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.rollout_workers.rollout_worker import (
    RolloutBatch,
    RolloutWorker,
    WorkerState,
    gather_to_rank0,
    seed_streams,
    split_into_batches,
)
from llm_decpomdp.algorithms.rollouts.checks import RunCost, check_starts, run_cost
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, TextEnv, Timer
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions, TrainerOptions
from llm_decpomdp.algorithms.training.callbacks import TrainerCallback
from llm_decpomdp.policy import Team
from llm_decpomdp.seeding import stream

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.training.trainer import Trainer


@dataclass(frozen=True)
class UpdateBatch(RolloutBatch):
    """A part of an update."""

    update: int
    """Counted from 1."""
    options: RolloutOptions
    """How rollouts are collected."""
    group_size: int
    """Completions of each agent in a group."""
    views: bool
    """Whether a critic will read the states."""
    round: int = 0
    """Round of dynamic sampling that added the starts; 0 for the update's own starts."""

    @property
    def purpose(self) -> str:
        """Name of the update or evaluation, for messages."""
        return f"update {self.update}"

    @property
    def names(self) -> tuple[str | int, ...]:
        """Names of the random streams, in addition to their purpose and the index."""
        return (self.update, "round", self.round) if self.round else (self.update,)

    @property
    def has_own_streams(self) -> bool:
        """False if rounds of dynamic sampling continue the streams of the process's share of the update."""
        return not self.round or self.options.rollout_batch_size is not None

    def play(self, state: WorkerState, timer: Timer) -> list[Rollout]:
        """Sample a rollout from each start, with streams named by batch and round."""
        # Streams are named, not continued, so that any process can sample the batch at any time.
        if self.has_own_streams:
            seed_streams(state.env, state.team, self.seed, "update", *self.names, index=self.index)
            state.rng = stream(self.seed, "handoff", *self.names, self.index)
        assert state.rng is not None, self
        first = self.index * (self.options.rollout_batch_size or 0)
        rollouts = collect_rollouts(
            state.env,
            state.team,
            self.starts,
            self.options,
            group_size=self.group_size,
            rng=state.rng,
            timer=timer,
            views=self.views,
        )
        if self.options.rollout_batch_size is None:
            return rollouts
        return [replace(rollout, place=place) for place, rollout in enumerate(rollouts, first)]


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
    def shard(self) -> Sequence[Sequence[Start]]:
        """The starts of this process, by rollout batch; a rollout batch may be empty."""
        if self.round:
            return self.replacements
        return processes.shard(split_into_batches(self.starts, self.size))

    def rollout_batches(self, options: TrainerOptions, views: bool = False) -> list[UpdateBatch]:
        """Return the rollout batches of this process that are not empty; with `views` for a critic."""
        return [
            UpdateBatch(
                seed=options.seed,
                # The index among the batches of all processes: it names the random streams.
                index=processes.rank() + place * processes.world_size(),
                starts=tuple(starts),
                update=self.update,
                options=options,
                group_size=options.group_size,
                views=views,
                round=self.round,
            )
            for place, starts in enumerate(self.shard)
            if starts
        ]


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


class SampledSource(RolloutSource):
    """Rollouts that workers sample with the present weights.

    Args:
        env: The environment.
        team: A policy for each agent.
        worker: Samples rollout batches.
        learner: Says whether a critic reads the states.
        options: How to sample.
        batches: Starts of each update.
        problems: Further starts, which dynamic sampling and curricula draw from.

    Raises:
        ValueError: If a batch is empty, a rollout would be absurdly large, rollout batches cannot be sampled in
            any order, or a first prompt is too long for its policy.
    """

    def __init__(
        self,
        env: TextEnv,
        team: Team,
        worker: RolloutWorker,
        learner: BaseLearner,
        options: TrainerOptions,
        batches: Sequence[Sequence[Start]],
        problems: Sequence[Start] = (),
    ) -> None:
        if not batches or not all(batches):
            raise ValueError(
                f"each update needs a batch of at least one start, got {len(batches)} batches "
                f"with {[len(batch) for batch in batches][:10]} starts"
            )
        self.env, self.team, self.worker, self.learner = env, team, worker, learner
        self.options, self.batches = options, batches
        further = problems if options.max_resample_rounds or options.curriculum else ()
        self.starts = list(dict.fromkeys(chain(*batches, further)))
        size = options.rollout_batch_size
        learner.algorithm.check_rollouts(team, learner.options, options, options.group_size)
        self.cost = run_cost(env, options, options.group_size, batches)
        check_starts(env, team, self.starts, size, worker.in_workers)
        number = -(-max(map(len, batches)) // (size or 1))
        processes.warn_of_idle(number, "rollout batches" if size else "starts")

    def collect(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Sample the starts of this process."""
        self.worker.synchronize()
        batches = request.rollout_batches(self.options, views=self.learner.critic is not None)
        rollouts = iter(self.worker.run_batches(batches, timer))
        shard = [next(rollouts) if starts else [] for starts in request.shard]
        return TrainBatch(shard, [shard])

    def prefetch(self, request: UpdateRequest) -> None:
        """Let the worker begin with a request."""
        self.worker.synchronize()
        views = self.learner.critic is not None
        self.worker.prefetch(request.rollout_batches(self.options, views))

    def on_init_end(self, trainer: Trainer) -> None:
        """Let the worker follow the weights of the trainer."""
        self.worker.track(self.learner.policies, lambda: trainer.version)

    def on_resume(self, trainer: Trainer) -> None:
        """Give the worker the weights of the checkpoint."""
        self.worker.reload()

    def close(self) -> None:
        """End what the worker has started."""
        self.worker.close()
