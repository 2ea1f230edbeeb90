"""Messages between OpenEnv's clients and servers of teams: for a whole team, or for one seat."""

from __future__ import annotations

from typing import Annotated, Any

from openenv.core.env_server.types import Action, Observation
from pydantic import Field

from llm_decpomdp.env import MAX_ACTION_LENGTH

MAX_AGENTS = 64
"""Most texts of an action."""

Completion = Annotated[str, Field(max_length=MAX_ACTION_LENGTH)]
"""Text of an agent; a longer one is refused before it is read."""


class TeamAction(Action):  # type: ignore[misc]  # openenv has no types
    """A completion of each live agent."""

    actions: dict[str, Completion] = Field(max_length=MAX_AGENTS)


class TeamObservation(Observation):  # type: ignore[misc]  # openenv has no types
    """The prompts of all agents, empty at the end, and their infos; the reward is the team's."""

    prompts: dict[str, str] = Field(default_factory=dict)
    infos: dict[str, dict[str, Any]] = Field(default_factory=dict)
    truncated: bool = False


class SeatAction(Action):  # type: ignore[misc]  # openenv has no types
    """The completion of the agent in the seat."""

    message: Completion


class SeatObservation(Observation):  # type: ignore[misc]  # openenv has no types
    """The prompt of the agent in the seat, empty at the end."""

    prompt: str = ""
    truncated: bool = False
