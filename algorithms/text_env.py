"""What the learners ask of an environment: a PettingZoo parallel environment of texts."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable


class TextEnv(Protocol):
    """A `pettingzoo.ParallelEnv` whose observations and actions are strings."""

    possible_agents: list[str]
    agents: list[str]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        """Start an episode: observations and infos of every agent."""
        ...

    def step(
        self, actions: dict[str, str]
    ) -> tuple[
        Mapping[str, str],
        Mapping[str, float],
        Mapping[str, bool],
        Mapping[str, bool],
        Mapping[str, Any],
    ]:
        """Observations, rewards, terminations, truncations and infos of the agents that acted."""
        ...


@runtime_checkable
class Forkable(Protocol):
    """An environment that makes independent copies of itself, safe to step in different threads."""

    def fork(self) -> Any:
        """An independent environment in the same state."""
        ...


@runtime_checkable
class Recorded(Protocol):
    """An environment whose state is a JSON-able value."""

    def snapshot(self) -> Mapping[str, Any]:
        """The state; the record of the episode is its item `episode`."""
        ...


def branch(env: TextEnv) -> TextEnv:
    """An independent copy in the same state: the environment's own `fork`, or else a deep copy."""
    if isinstance(env, Forkable):
        twin: TextEnv = env.fork()
        return twin
    return copy.deepcopy(env)
