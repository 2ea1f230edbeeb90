"""The base classes of rollout workers, and of the batches of starts that they sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, TextEnv, Timer
from llm_decpomdp.policy import Team, TrainablePolicy


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
    """Starts that are sampled together, one rollout from each, with random streams of their own.

    A batch whose process has died is sampled again, with the same rollouts.
    """

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


class RolloutWorker(ABC):
    """Samples rollout batches in this process or in others, with the weights of its last `synchronize`."""

    in_workers = True
    """Whether other processes share the rollout batches."""
    _loaded: int | None = None

    def synchronize(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Take over the weights of policies, if this version has others; arguments as in `update_weights`."""
        if version != self._loaded:
            self.update_weights(policies, version)
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
