"""Bundles: starts that are played together, with random streams of their own.

What a batch plays is a function of the weights and of the batch: of seed, update, index and starts. It does
not depend on the process that plays it, nor on what that process has played before, so that a batch whose process
has died is simply played again.

Without `starts_per_bundle` each process has one batch, its share of the update, named by the process's rank.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollout_workers.streams import seed_policies
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts, play_episodes
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.algorithms.rollouts.sampling import Timer
from llm_decpomdp.branching import seed_noise
from llm_decpomdp.policy import Team
from llm_decpomdp.seeding import stream

Item = TypeVar("Item")


@dataclass
class WorkerState:
    """What batches are played with, in one process."""

    env: TextEnv
    """The environment of updates."""
    eval_env: TextEnv
    """The environment of evaluations."""
    team: Team
    """A policy for each agent."""
    rng: np.random.Generator | None = None
    """The stream of handoffs and partners of the newest batch of an update."""


@dataclass(frozen=True)
class RolloutBatch(ABC):
    """Starts that are played together, one rollout from each."""

    seed: int
    """The run's seed."""
    index: int
    """Position among the batches of the same update or evaluation, of all processes, from 0."""
    starts: tuple[Start, ...]
    """At least one."""

    @property
    @abstractmethod
    def purpose(self) -> str:
        """What the batch is part of, in words."""

    @abstractmethod
    def sample(self, state: WorkerState, timer: Timer) -> list[Rollout]:
        """Play a rollout from each start; the timer is given the seconds of each activity."""


@dataclass(frozen=True)
class UpdateBatch(RolloutBatch):
    """A part of an update."""

    update: int
    """Counted from 1."""
    options: RolloutOptions
    """How to grow rollouts."""
    group_size: int
    """Completions of each agent in a group."""
    views: bool
    """Whether a critic will read the states."""
    round: int = 0
    """Round of the refill that the starts came with; 0 for those of the batch."""

    @property
    def purpose(self) -> str:
        """What the batch is part of, in words."""
        return f"update {self.update}"

    @property
    def names(self) -> tuple[str | int, ...]:
        """What random streams are named by, beside their purpose and the index."""
        return (self.update, "round", self.round) if self.round else (self.update,)

    @property
    def has_own_streams(self) -> bool:
        """False in the refill of a process's whole share of an update, which goes on with those it began with."""
        return not self.round or self.options.starts_per_bundle is not None

    def sample(self, state: WorkerState, timer: Timer) -> list[Rollout]:
        """Play a rollout from each start, by streams that batch and round name."""
        if self.has_own_streams:
            seed_policies(state.team, self.seed, "update", *self.names, index=self.index)
            state.rng = stream(self.seed, "handoff", *self.names, self.index)
            seed_noise(state.env, self.seed, "update", *self.names, self.index)
        assert state.rng is not None, self
        first = self.index * (self.options.starts_per_bundle or 0)
        rollouts = collect_rollouts(
            *(state.env, state.team, self.starts, self.options),
            group_size=self.group_size,
            rng=state.rng,
            timer=timer,
            views=self.views,
        )
        if self.options.starts_per_bundle is None:
            return rollouts
        return [replace(rollout, place=place) for place, rollout in enumerate(rollouts, first)]


@dataclass(frozen=True)
class EvaluationBatch(RolloutBatch):
    """A part of an evaluation; all evaluations sample with the same random numbers."""

    at_a_time: int
    """Episodes that are played in step."""

    @property
    def purpose(self) -> str:
        """What the batch is part of, in words."""
        return "an evaluation"

    def sample(self, state: WorkerState, timer: Timer) -> list[Rollout]:
        """Play an episode from each start."""
        seed_policies(state.team, self.seed, "evaluation", index=self.index)
        seed_noise(state.eval_env, self.seed, "evaluation", self.index)
        return play_episodes(
            state.eval_env, state.team, self.starts, at_a_time=self.at_a_time, timer=timer
        )


def split_into_batches(starts: Sequence[Start], size: int | None) -> list[tuple[Start, ...]]:
    """Cut starts into the batches of all processes.

    Args:
        starts: Those of an update or an evaluation.
        size: Starts of a batch, but for the last one; `None` for one batch of each process, which then takes
            every n-th start of n processes and may be empty.
    """
    if size is None:
        shares = processes.world_size()
        return [tuple(starts[rank::shares]) for rank in range(shares)]
    return [tuple(starts[first : first + size]) for first in range(0, len(starts), size)]


def gather_to_rank0(rolled: Sequence[Sequence[Item]], size: int | None) -> list[Item]:
    """Collect the rollouts of all processes in the first one, in the order of their starts; elsewhere none.

    Args:
        rolled: Those of the batches of this process, or what stands for them.
        size: As of `cut`.
    """
    parts = rolled if size is not None else [[rollout] for batch in rolled for rollout in batch]
    return [rollout for part in processes.gather_to_first(parts) for rollout in part]
