"""A Gymnasium environment over a team environment, which it hides."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import gymnasium
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Text
from pettingzoo import ParallelEnv
from typing_extensions import Self

from llm_decpomdp.branching import branch

Value = TypeVar("Value")


class View(gymnasium.Env[str, str]):
    """One player's view of a team environment.

    No public attribute leads to the environment or to another agent's policy, and so to answers, hidden tests or
    the global state. Python has no stronger privacy: a program that reads underscored names sees all.

    Args:
        env: The team environment. It is played as it is, not copied.
        agent: The agent whose reward, flags and infos are returned; the first one if none is given.

    Raises:
        TypeError: If the environment is none of a team, or an agent's observations or actions are no texts.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}  # type: ignore[misc]  # one for all

    def __init__(self, env: ParallelEnv[str, Any, Any], agent: str | None = None) -> None:
        _require_texts(env)
        self._env = env
        self._agent = env.possible_agents[0] if agent is None else agent
        self._prompts: Mapping[str, str] = {}
        self._running = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode; `seed` and `options` go to the team environment.

        Returns:
            The first prompt, and the agent's infos.
        """
        self._running = False
        super().reset(seed=seed)
        self._prompts, infos = self._env.reset(seed=seed, options=options)
        self._running = True
        return self._observation(self._prompts), self._info(infos[self._agent])

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play a turn.

        Returns:
            The next prompt, the reward, whether the episode terminated or was truncated, and the agent's infos.

        Raises:
            ResetNeeded: If the view has begun no episode, or its agent has left it.
            TypeError: If the action is not a string.
        """
        if not isinstance(action, str):
            raise TypeError(f"an action is a text, got {type(action).__name__}")
        if not self._running:
            raise ResetNeeded("no episode is running: call reset() before step()")
        prompts, rewards, terminations, truncations, infos = self._env.step(self._actions(action))
        self._prompts = prompts
        terminated, truncated = terminations[self._agent], truncations[self._agent]
        self._running = not (terminated or truncated)
        return (
            self._observation(prompts),
            self._reward(rewards),
            terminated,
            truncated,
            self._info(infos[self._agent]),
        )

    def fork(self) -> Self:
        """Return an independent view in the same state; policies, loaded tasks and spaces are shared.

        Raises:
            TypeError: If the team environment cannot be branched; says the remedy.
        """
        twin = copy.copy(self)
        twin._env = branch(self._env)
        twin._np_random = copy.deepcopy(self._np_random)
        return twin

    def close(self) -> None:
        """Close the team environment."""
        self._env.close()

    @abstractmethod
    def _actions(self, action: str) -> dict[str, str]:
        """Return the completions of all live agents."""

    @abstractmethod
    def _observation(self, prompts: Mapping[str, str]) -> str:
        """Return the text that the player sees."""

    def _reward(self, rewards: Mapping[str, float]) -> float:
        """Return the player's reward."""
        return rewards[self._agent]

    def _info(self, info: Mapping[str, Any]) -> dict[str, Any]:
        """Return the player's infos, of those of its agent."""
        return dict(info)


def _require_texts(env: object) -> None:
    """Raise a `TypeError` unless all observations and actions are texts."""
    if not isinstance(env, ParallelEnv):
        raise TypeError(f"a view is of a pettingzoo.ParallelEnv, got a {type(env).__name__}")
    for agent in env.possible_agents:
        for space in (env.observation_space(agent), env.action_space(agent)):
            if not isinstance(space, Text):
                raise TypeError(f"a view needs spaces of texts, and {agent!r} has {space}")
