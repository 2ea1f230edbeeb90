"""The tasks, the random generator and the episode of an environment, and its state as a value."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from typing_extensions import Self

from llm_decpomdp.interfaces import Episode, Task
from llm_decpomdp.task_set import TaskLoader, TaskSet


class EpisodeState:
    """The part of `DecPOMDPEnv` that holds its state, and stores, restores and copies it."""

    name: str
    agents: list[str]
    possible_agents: list[str]
    _tasks: TaskSet | TaskLoader
    _episode: Episode | None
    _rng: np.random.Generator | None

    @property
    def tasks(self) -> TaskSet:
        """The loaded problems."""
        if not isinstance(self._tasks, TaskSet):
            self._tasks = self._tasks()
        return self._tasks

    @property
    def np_random(self) -> np.random.Generator:
        """The environment's own generator; only drawing a task uses it."""
        if self._rng is None:
            self._rng, _ = seeding.np_random()
        return self._rng

    @property
    def episode(self) -> Episode:
        """The current state.

        Raises:
            ResetNeeded: Before the first `reset`.
        """
        if self._episode is None:
            raise ResetNeeded("call reset() before anything else")
        return self._episode

    @property
    def task(self) -> Task:
        """The current episode's problem."""
        return self.tasks.find(self.episode.task_id)

    def snapshot(self) -> dict[str, Any]:
        """Return the exact state as a JSON-able dictionary, the random generator included."""
        return {
            "env": self.name,
            "agents": list(self.agents),
            "episode": self.episode.to_json(),
            "rng": self.np_random.bit_generator.state,
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continue from a `snapshot`, in this or another environment of the same kind.

        Raises:
            ValueError: If the snapshot is of another environment.
            KeyError: If its task is not in this environment's data.
        """
        if snapshot["env"] != self.name:
            raise ValueError(f"a snapshot of {snapshot['env']!r} cannot restore {self.name!r}")
        if "inner" in snapshot:  # a wrapper's own state is around the environment's
            raise ValueError(
                f"a snapshot of a wrapped environment cannot restore {self.name!r} without the wrapper, such as a "
                "channel"
            )
        episode = Episode.from_json(snapshot["episode"])
        # Raises here, before any state changes, if the task is of other data.
        self.tasks.find(episode.task_id)
        if set(episode.prompts) != set(self.possible_agents):
            raise ValueError(
                f"the snapshot's agents {sorted(episode.prompts)} are not {self.possible_agents}"
            )
        self._episode = episode
        self.agents = list(snapshot["agents"])
        self._rng = _generator(snapshot["rng"])

    def fork(self) -> Self:
        """Return an independent environment in the same state; parts, loaded tasks and spaces are shared."""
        twin = copy.copy(self)
        twin.agents = list(self.agents)
        twin._rng = _generator(self.np_random.bit_generator.state)
        return twin


def _generator(state: Any) -> np.random.Generator:
    """Return a generator that goes on from the state of another one; a deep copy takes four times as long."""
    bits = np.random.PCG64(0)
    bits.state = state
    return np.random.Generator(bits)
