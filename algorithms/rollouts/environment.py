"""The environment protocol of learners: a PettingZoo parallel environment of texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


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
