"""An OpenEnv server of an environment: clients play a whole team, or one agent with policies as partners.

A session is a branch of one environment, so all sessions share its loaded tasks. Programs that agents write run in
the sandbox of the server's machine.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Annotated, Any

import numpy as np
from gymnasium.error import ResetNeeded
from openenv.core.env_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, ConcurrencyConfig, Observation, State
from pydantic import Field

from llm_decpomdp.branching import branch, branches_in_threads, require_simultaneous
from llm_decpomdp.integrations.openenv.guard import Guard
from llm_decpomdp.policy import Policy
from llm_decpomdp.registry import make
from llm_decpomdp.spaces import MAX_ACTION_LENGTH, requested_task
from llm_decpomdp.wrappers.single_agent_view import single_agent_view

MAX_NAME = 255
"""Maximum length of an `episode_id`."""

MAX_AGENTS = 64
"""Maximum number of texts of an action."""

Completion = Annotated[str, Field(max_length=MAX_ACTION_LENGTH)]
"""Text of an agent; longer ones are refused before parsing."""


class TeamAction(Action):  # type: ignore[misc]  # openenv has no types
    """A completion of each live agent."""

    actions: dict[str, Completion] = Field(max_length=MAX_AGENTS)


class TeamObservation(Observation):  # type: ignore[misc]  # openenv has no types
    """The prompts of all agents, empty at the end, and their infos; the reward is that of the team."""

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


def app(
    env_id: str,
    *,
    seat: str | None = None,
    partners: Mapping[str, Policy] | None = None,
    max_sessions: int = 64,
    session_timeout: float = 3600.0,
    names: Collection[str] = (),
    **env_options: Any,
) -> Any:
    """Build the application that serves an environment.

    Args:
        env_id: A registered id, or `module:id`.
        seat: The agent that clients play; by default the whole team.
        partners: A policy for each other agent of a seat.
        max_sessions: Maximum number of concurrent sessions; others are refused.
        session_timeout: Seconds without a message after which a session is closed.
        names: Names of the server other than `localhost` and addresses.
        **env_options: Arguments of the environment.

    Returns:
        A FastAPI application without authentication: serve it only in a trusted network.

    Raises:
        KeyError, TypeError, ValueError: As `llm_decpomdp.make` and `llm_decpomdp.single_agent_view`.
        ValueError: If there are partners without a seat.
    """
    if partners and seat is None:
        raise ValueError(f"partners {sorted(partners)} play beside a seat: name the seat")
    env = make(env_id, **env_options)
    require_simultaneous(env, "the OpenEnv server")
    env.reset(seed=0)  # loads the tasks once for all sessions
    # A lock where branches of the environment may share state.
    turn = nullcontext() if branches_in_threads(env) else threading.Lock()
    if seat is None:
        sessions, messages = partial(TeamSession, env, turn), (TeamAction, TeamObservation)
    else:
        view = single_agent_view(env, seat, partners or {})
        sessions, messages = partial(SeatSession, view, turn), (SeatAction, SeatObservation)
    limits = ConcurrencyConfig(max_concurrent_envs=max_sessions, session_timeout=session_timeout)
    application = create_fastapi_app(
        sessions,
        *messages,
        env_name=env_id,
        concurrency_config=limits,
        mode="production",  # no /step and /reset, which would belong to no session
    )
    application.add_middleware(Guard, names=names)
    return application


class ServerSession(Environment):  # type: ignore[misc]  # openenv has no types
    """A client's successive episodes in a branch of the environment.

    Args:
        env: The environment. Each session plays a branch of it.
        turn: The lock around calls that must not run at the same time.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    seeds = np.random.default_rng()
    """Draws the seeds of episodes without one, so that sessions differ."""

    def __init__(self, env: Any, turn: AbstractContextManager[Any]) -> None:
        super().__init__()
        self.env = branch(env)
        self._turn = turn
        self._state = State()
        self._running = False
        self._closed = False

    @property
    def state(self) -> State:
        """The number of turns; the environment's state stays on the server."""
        return self._state

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task_id: str | None = None,
        **others: Any,
    ) -> Observation:
        """Start an episode; raise a `KeyError` for an unknown argument."""
        self._check_open()
        requested_task(others)
        if episode_id is not None and len(episode_id) > MAX_NAME:
            raise ValueError(f"an episode_id may have {MAX_NAME} characters, got {len(episode_id)}")
        self._running = False
        # Drawn here: the branches of all sessions begin with equal generators.
        seed = int(self.seeds.integers(2**31)) if seed is None else seed
        options = None if task_id is None else {"task_id": task_id}
        with self._turn:
            observation = self._begin(seed, options)
        self._state = State(episode_id=episode_id, step_count=0)
        self._running = True
        return observation

    def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Observation:
        """Play a turn; raise a `ResetNeeded` if no episode is running."""
        self._check_open()
        if not self._running:
            raise ResetNeeded("no episode is running: reset before you step")
        with self._turn:
            observation = self._play(action)
        self._state.step_count += 1
        self._running = not observation.done
        return observation

    def close(self) -> None:
        """End the session. OpenEnv also calls it after idle time, and leaves the connection open."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("this session was closed after idle time: connect anew")

    @abstractmethod
    def _begin(self, seed: int, options: dict[str, Any] | None) -> Observation:
        """Reset the environment."""

    @abstractmethod
    def _play(self, action: Any) -> Observation:
        """Step the environment."""


class TeamSession(ServerSession):
    """Sessions in which a client plays all agents."""

    def _begin(self, seed: int, options: dict[str, Any] | None) -> TeamObservation:
        prompts, infos = self.env.reset(seed=seed, options=options)
        return TeamObservation(prompts=prompts, infos=infos)

    def _play(self, action: TeamAction) -> TeamObservation:
        # Ends are not needed: an episode is done once no agent is left.
        prompts, rewards, _ends, truncations, infos = self.env.step(action.actions)
        # The protocol has a single reward.
        if len(set(rewards.values())) > 1:
            raise ValueError(f"OpenEnv has one reward, and the agents earned {rewards}")
        return TeamObservation(
            prompts=prompts,
            reward=float(next(iter(rewards.values()))),
            done=not self.env.agents,
            truncated=any(truncations.values()),
            infos=infos,
        )


class SeatSession(ServerSession):
    """Sessions in which a client plays one agent, and policies the others."""

    def _begin(self, seed: int, options: dict[str, Any] | None) -> SeatObservation:
        prompt, info = self.env.reset(seed=seed, options=options)
        return SeatObservation(prompt=prompt, metadata=info)

    def _play(self, action: SeatAction) -> SeatObservation:
        prompt, reward, terminated, truncated, info = self.env.step(action.message)
        return SeatObservation(
            prompt=prompt,
            reward=reward,
            done=terminated or truncated,
            truncated=truncated,
            metadata=info,
        )
