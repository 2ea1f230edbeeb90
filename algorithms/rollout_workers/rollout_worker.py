"""Rollout workers, the batches of starts that they sample, and the worker in this process.

The rollouts of a batch are a function of the weights and of the batch: of seed, update, index and starts. They do
not depend on the process that samples the batch, nor on its earlier batches. So equal seeds give equal rollouts
with any number of workers, and a batch whose process has died is sampled again.

Without `rollout_batch_size` each process has one batch, its share of the update, whose index is its rank.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, TextEnv, Timer
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions, TrainerOptions
from llm_decpomdp.branching import seed_noise
from llm_decpomdp.policy import Seedable, Team, TrainablePolicy, distinct_policies, policy_attribute
from llm_decpomdp.seeding import stream

Item = TypeVar("Item")


@dataclass
class WorkerState:
    """Environments and team of one process."""

    env: TextEnv
    """The environment of updates."""
    eval_env: TextEnv
    """The environment of evaluations."""
    team: Team
    """A policy for each agent."""
    rng: np.random.Generator | None = None
    """The random stream of branch selection and partners of the newest batch of an update."""


@dataclass(frozen=True)
class RolloutBatch(ABC):
    """Starts that are sampled together, one rollout from each, with random streams of their own."""

    seed: int
    """The run's seed."""
    index: int
    """Position among the batches of the same update or evaluation, of all processes, from 0."""
    starts: tuple[Start, ...]
    """At least one."""

    @property
    @abstractmethod
    def purpose(self) -> str:
        """Name of the update or evaluation, for messages."""

    @abstractmethod
    def play(self, state: WorkerState, timer: Timer) -> list[Rollout]:
        """Sample a rollout from each start; the timer adds up the seconds of each activity."""


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


def split_into_batches(starts: Sequence[Start], size: int | None) -> list[tuple[Start, ...]]:
    """Split the starts of an update or evaluation into the batches of all processes.

    A batch has `size` starts, the last one perhaps fewer. With `None` there is one for each process, which takes
    every n-th start of n processes and may be empty.
    """
    if size is None:
        shares = processes.world_size()
        return [tuple(starts[rank::shares]) for rank in range(shares)]
    return [tuple(starts[first : first + size]) for first in range(0, len(starts), size)]


def gather_to_rank0(rolled: Sequence[Sequence[Item]], size: int | None) -> list[Item]:
    """Gather the rollouts of all processes in rank 0, in the order of their starts; others get an empty list.

    `rolled` has the rollouts of each batch of this process; `size` is as for `split_into_batches`.
    """
    parts = rolled if size is not None else [[rollout] for batch in rolled for rollout in batch]
    return [rollout for part in processes.gather_to_first(parts) for rollout in part]


def seed_streams(env: TextEnv, team: Team, seed: int, *names: str | int, index: int) -> None:
    """Give every policy that samples, and a noisy environment, its own random stream; see `seed_policies`."""
    seed_policies(team, seed, *names, index=index)
    seed_noise(env, seed, *names, index)


def seed_policies(team: Team, seed: int, *names: str | int, index: int) -> None:
    """Give every policy that samples its own random stream, for a purpose such as `("update", 3)`.

    `index` is that of a batch, or the rank of a process.
    """
    for name, policy in distinct_policies(team).items():
        if isinstance(policy, Seedable):
            policy.seed(int(stream(seed, *names, name, index).integers(2**32)))
        begin_batch = policy_attribute(policy, "begin_batch")
        if begin_batch is not None:
            begin_batch(seed, *names)  # without the index, so that batches of one update draw alike


class RolloutWorker(ABC):
    """Samples rollout batches in this process or in others, with the weights of its last `synchronize`."""

    in_workers = True
    """Whether other processes share the rollout batches."""
    _policies: Mapping[str, TrainablePolicy] | None = None
    _version: Callable[[], int] | None = None
    _loaded: int | None = None

    def track(self, policies: Mapping[str, TrainablePolicy], version: Callable[[], int]) -> None:
        """Say whose weights `synchronize` takes over.

        Args:
            policies: The policies that learn, by the names of `distinct_policies`.
            version: Returns the number of completed updates and warm start steps; it never decreases.
        """
        self._policies, self._version = policies, version

    def synchronize(self) -> None:
        """Take over the newest weights, if they have changed. Without `track` there is nothing to take over."""
        if self._policies is None or self._version is None:
            return
        version = self._version()
        if version != self._loaded:
            self.update_weights(self._policies, version)
            self._loaded = version

    def reload(self) -> None:
        """Let `synchronize` take over the weights again, because they changed without a new version."""
        self._loaded = None

    @abstractmethod
    def update_weights(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Take over new weights. Called before the first batch, and between a step and the next batch.

        Args:
            policies: The policies that learn, by the names of `distinct_policies`.
            version: Number of completed updates and warm start steps; it never decreases.
        """

    @abstractmethod
    def prefetch(self, batches: Sequence[RolloutBatch]) -> None:
        """Optionally start these batches in the background; `run_batches` is called for them next."""

    @abstractmethod
    def run_batches(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        """Sample batches, and return the rollouts of each, in the order of the batches.

        Args:
            batches: Parts of one update or evaluation.
            timer: Adds up the seconds of each activity, summed over processes that work at the same time.

        Raises:
            RolloutWorkerError: If a batch failed and its retries are used up.
        """

    def close(self) -> None:
        """End processes and servers that were started; `update_weights` starts them again. May be called twice."""
        self.reload()


class LocalRolloutWorker(RolloutWorker):
    """Samples in this process, one batch after the other, with the policies that learn.

    Args:
        state: Environments and team.
    """

    in_workers = False

    def __init__(self, state: WorkerState) -> None:
        self.state = state

    def update_weights(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Gather sharded weights; all other weights are in this process."""
        for policy in policies.values():
            gather = policy_attribute(policy, "gather")
            if gather is not None:
                gather()

    def prefetch(self, batches: Sequence[RolloutBatch]) -> None:
        """Do nothing: this process has other work."""

    def run_batches(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        """Sample batches, and return the rollouts of each, in the order of the batches."""
        rollouts = [batch.play(self.state, timer) for batch in batches]
        for policy in distinct_policies(self.state.team).values():
            finish_sampling = policy_attribute(policy, "finish_sampling")
            if finish_sampling is not None:
                finish_sampling()
        return rollouts
