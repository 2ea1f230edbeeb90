"""The batches of starts of an update, and the rollout worker in this process.

The rollouts of a batch are a function of the weights and of the batch: of seed, update, index and starts. They do
not depend on the process that samples the batch, nor on its earlier batches. So equal seeds give equal rollouts
with any number of workers, and a batch whose process has died is sampled again.

Without `rollout_batch_size` each process has one batch, its share of the update, whose index is its rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollout_workers.base import RolloutBatch, RolloutWorker, WorkerState
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, TextEnv, Timer
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions, TrainerOptions
from llm_decpomdp.branching import seed_noise
from llm_decpomdp.policy import Seedable, Team, TrainablePolicy, distinct_policies, policy_attribute
from llm_decpomdp.seeding import stream


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
