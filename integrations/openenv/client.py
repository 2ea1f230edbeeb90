"""A server of OpenEnv as an environment: the whole team, or one agent as a team of one.

A session of the server cannot be copied. Forks, pickles and deep copies store the moves instead. At the next step
they open a session and repeat them.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from openenv.core import GenericEnvClient
from pettingzoo import ParallelEnv

from llm_decpomdp.spaces import (
    MAX_ACTION_LENGTH,
    MAX_OBSERVATION_LENGTH,
    UnicodeText,
    read_actions,
    requested_task,
)


class OpenEnvClient(ParallelEnv[str, str, str]):  # type: ignore[misc]  # pettingzoo has no types
    """An environment behind a connection to a server of `app`.

    Args:
        base_url: Its address, such as `http://127.0.0.1:8000`.
        agent: Name of the agent if the server has a seat for one.

    Raises:
        ConnectionError: If no server answers.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "openenv_client_v0", "render_modes": []}

    def __init__(self, base_url: str, *, agent: str = "agent_0") -> None:
        self.base_url = base_url
        self._session: Any = None
        self._start: dict[str, Any] | None = None
        self._first: dict[str, str] = {}
        self._played: tuple[tuple[dict[str, Any], dict[str, str]], ...] = ()
        self._rng: np.random.Generator = seeding.np_random()[0]
        observation = self._connect().reset(seed=0).observation
        self._team = "prompts" in observation
        self.possible_agents = list(observation["prompts"]) if self._team else [agent]
        self.agents: list[str] = []
        self._prompts = UnicodeText(MAX_OBSERVATION_LENGTH)
        self._completions = UnicodeText(MAX_ACTION_LENGTH)

    def observation_space(self, agent: str) -> UnicodeText:
        """Return the space of prompts."""
        return self._prompts

    def action_space(self, agent: str) -> UnicodeText:
        """Return the space of completions: all texts."""
        return self._completions

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        """Start an episode.

        Args:
            seed: The server's seed; `None` draws one.
            options: `{"task_id": ...}` chooses a task.

        Returns:
            First prompts and infos of the agents.

        Raises:
            KeyError: If options have another key.
            RuntimeError, ConnectionError, TimeoutError: If the server refuses or is lost.
        """
        task_id = requested_task(options)
        self.agents = []
        if seed is not None:
            self._rng = seeding.np_random(seed)[0]
        self._start = {"seed": int(self._rng.integers(2**31)) if seed is None else seed}
        if task_id is not None:
            self._start["task_id"] = task_id
        # A replay begins at this reset.
        self._played = ()
        with self._closed_if_it_fails():
            result = self._connect().reset(**self._start)
        self.agents = list(self.possible_agents)
        self._first = self._texts(result)
        return dict(self._first), self._infos(result)

    def step(self, actions: dict[str, str]) -> tuple[dict[str, Any], ...]:
        """Play a turn.

        Returns:
            Observations, rewards, terminations, truncations and infos of the agents.

        Raises:
            ResetNeeded: If no episode is running.
            KeyError: If an agent's action is missing, or an unknown agent acts.
            TypeError: If an action is not a string.
            RuntimeError, ConnectionError, TimeoutError: If the server refuses or is lost. The episode is
                unchanged: the next `step` repeats it in a new session.
        """
        if not self.agents:
            if actions or self._start is None:
                raise ResetNeeded("no episode is running: call reset() before step()")
            return {}, {}, {}, {}, {}
        texts = read_actions(actions, self.agents)
        seat: dict[str, Any] = {"message": next(iter(texts.values()))}
        action = {"actions": texts} if self._team else seat
        with self._closed_if_it_fails():
            result = self._resume().step(action)
        prompts = self._texts(result)
        self._played += ((action, prompts),)
        if result.done:
            self.agents = []
        truncated = bool(result.observation["truncated"])
        return (
            dict(prompts),
            dict.fromkeys(self.possible_agents, float(result.reward)),
            dict.fromkeys(self.possible_agents, bool(result.done) and not truncated),
            dict.fromkeys(self.possible_agents, truncated),
            self._infos(result),
        )

    def fork(self) -> OpenEnvClient:
        """Return an independent environment in the same state, which repeats the moves at its next step."""
        return copy.deepcopy(self)

    def close(self) -> None:
        """Close the session."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_session": None}

    def __del__(self) -> None:
        # At the end of the process the client's event loop may be gone.
        if vars(self).get("_session") is not None and not sys.is_finalizing():
            self.close()

    def _connect(self) -> Any:
        """Return the session, a new one if there is none."""
        if self._session is None:
            self._session = GenericEnvClient(base_url=self.base_url).sync()
            self._session.connect()
        return self._session

    def _resume(self) -> Any:
        """Return a session with the episode so far."""
        if self._session is None:
            session = self._connect()
            self._compare(session.reset(**(self._start or {})), self._first)
            for action, prompts in self._played:
                self._compare(session.step(action), prompts)
        return self._session

    def _compare(self, result: Any, prompts: dict[str, str]) -> None:
        """Raise a `RuntimeError` if the server gives other prompts than before."""
        if (now := self._texts(result)) != prompts:
            raise RuntimeError(
                f"{self.base_url} plays another episode than before from {self._start}: it said {prompts!r:.200}, "
                f"and now {now!r:.200}. Its seeds must decide everything"
            )

    @contextmanager
    def _closed_if_it_fails(self) -> Iterator[None]:
        """Close the session at any failure, since the state of its episode is then unknown."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _texts(self, result: Any) -> dict[str, str]:
        observation = result.observation
        if self._team:
            return dict(observation["prompts"])
        return dict.fromkeys(self.possible_agents, observation["prompt"])

    def _infos(self, result: Any) -> dict[str, Any]:
        """Return the numbers of each agent's infos; those of a seat are in the metadata."""
        seat = dict.fromkeys(self.possible_agents, result.metadata or {})
        infos = result.observation["infos"] if self._team else seat
        return {
            agent: {key: value for key, value in info.items() if isinstance(value, int | float)}
            for agent, info in infos.items()
        }


client = OpenEnvClient
