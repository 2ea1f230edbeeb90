"""A foreign environment of texts as a team of one, for the learners of this library."""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from pettingzoo import ParallelEnv

from llm_decpomdp.branching import branch
from llm_decpomdp.oracle import Oracle, answers
from llm_decpomdp.spaces import (
    MAX_ACTION_LENGTH,
    MAX_OBSERVATION_LENGTH,
    UnicodeText,
    read_actions,
    requested_task,
)

Step = tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Any]]


class FromSingleAgent(ParallelEnv[str, str, str]):  # type: ignore[misc]  # pettingzoo has no types
    """A team of one agent, who plays an environment with Gymnasium's interface and texts.

    The foreign environment is always reset with a seed: `reset()` without one draws the next from a generator of
    its own, so that no global generator decides.

    Args:
        make: Builds the environment: `reset(seed=...)` returns `(text, info)`, and `step(text)` returns
            `(text, reward, terminated, truncated, info)`. It must be a function of a module for pickles.
        agent: Name of the agent.
        replay: Let a copy be a new environment, which is built and played to the same point when the copy is
            stepped, and closed with it: for what cannot be copied, such as a session on a server. It needs equal
            seeds and actions to give equal everything, and time.
        info_keys: Numbers of its infos to keep; 0 where it tells none.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        agent: str = "agent_0",
        *,
        replay: bool = False,
        info_keys: Sequence[str] = (),
    ) -> None:
        self._make = make
        self._replay = replay
        self._info_keys = tuple(info_keys)
        self._env: Any = make()
        self._name = type(getattr(self._env, "unwrapped", self._env)).__name__
        self._rng: np.random.Generator = seeding.np_random()[0]
        self._start: dict[str, Any] = {}
        self._texts: tuple[str, ...] = ()
        self.possible_agents = [agent]
        self.agents: list[str] = []
        self._prompts = UnicodeText(MAX_OBSERVATION_LENGTH)
        self._completions = UnicodeText(MAX_ACTION_LENGTH)

    @property
    def metadata(self) -> dict[str, Any]:
        """Name of the foreign environment's class, and no way to render it."""
        return {"name": self._name, "render_modes": [], "is_parallelizable": True}

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
            seed: Seed of the foreign environment; `None` draws it.
            options: Its options; refused if it takes none.

        Returns:
            The first prompt and infos of the agent.

        Raises:
            KeyError: If an option is given, and the environment takes none.
            TypeError: If the options are no mapping, its `reset` returns something else than a text and infos, or
                an info to keep is no number.
        """
        # A view that replays was closed, or is a copy that was never stepped.
        if self._env is None:
            self._env = self._make()
        if seed is not None:
            self._rng = seeding.np_random(seed)[0]
        # Many environments take seeds of 31 bits only.
        start = int(self._rng.integers(2**31)) if seed is None else seed
        self._start = {"seed": start, **self._options(options)}
        self._texts = ()
        result = self._env.reset(**self._start)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise TypeError(_wrong(self._env, "reset(seed=...)", "(text, info)", result))
        self.agents = list(self.possible_agents)
        return self._agent_dict(self._text(result[0])), self._agent_dict(self._info(result[1]))

    def step(self, actions: dict[str, str]) -> Step:
        """Play a turn.

        Returns:
            Observations, rewards, terminations, truncations and infos of the agent. Ends of both kinds at once are
            a termination.

        Raises:
            ResetNeeded: If no episode is running.
            KeyError: If the agent's action is missing, or another agent acts.
            TypeError: If the action or the observation is no text, `step` returns no five values, or an info to
                keep is no number.
        """
        if not self.agents:
            if actions or not self._start:
                raise ResetNeeded("no episode is running: call reset() before step()")
            return {}, {}, {}, {}, {}
        (text,) = read_actions(actions, self.agents).values()
        result = self._open_env().step(text)
        self._texts += (text,)
        if not (isinstance(result, tuple) and len(result) == 5):
            five = "(text, reward, terminated, truncated, info)"
            raise TypeError(_wrong(self._env, "step(text)", five, result))
        prompt, reward, terminated, truncated, info = result
        if terminated or truncated:
            self.agents = []
        return (
            self._agent_dict(self._text(prompt)),
            self._agent_dict(float(reward)),
            self._agent_dict(bool(terminated)),
            self._agent_dict(bool(truncated) and not terminated),
            self._agent_dict(self._info(info)),
        )

    def fork(self) -> FromSingleAgent:
        """Return an independent environment in the same state, with a branch of the foreign one unless it replays.

        Raises:
            TypeError: If the foreign environment cannot be copied; `replay` is the remedy then.
        """
        twin = copy.copy(self)
        twin.agents = list(self.agents)
        twin._rng = copy.deepcopy(self._rng)
        if not self._replay:
            twin._env = branch(self._env)
        return twin

    def close(self) -> None:
        """Close the foreign environment."""
        env = self._env
        if self._replay:
            self._env = None
        if callable(getattr(env, "close", None)):
            env.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_env": None} if self._replay else dict(vars(self))

    def __del__(self) -> None:
        state = vars(self)
        # While Python ends, modules that `close` needs may be gone.
        if state.get("_replay") and state.get("_env") is not None and not sys.is_finalizing():
            self.close()

    def _open_env(self) -> Any:
        """Return the foreign environment, built and played to the same point if this is a copy that replays."""
        if self._env is None:
            self._env = self._make()
            try:
                if self._start:
                    self._env.reset(**self._start)
                for text in self._texts:
                    self._env.step(text)
            except BaseException:
                self.close()
                raise
        return self._env

    def _options(self, options: dict[str, Any] | None) -> dict[str, Any]:
        """Return the options that the foreign `reset` takes."""
        if options is None:
            return {}
        if not isinstance(options, Mapping):
            raise TypeError(
                f"options must be a mapping such as {{'task_id': ...}}, got {options!r}"
            )
        parameters = inspect.signature(self._env.reset).parameters
        if "options" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            return {"options": options}
        task_id, name = requested_task(options), type(self._env).__name__
        if task_id is not None:
            raise KeyError(f"{name} takes no options, so no task {task_id!r}: use seeds")
        return {}

    def _agent_dict(self, value: Any) -> dict[str, Any]:
        return dict.fromkeys(self.possible_agents, value)

    def _text(self, prompt: object) -> str:
        if not isinstance(prompt, str):
            raise TypeError(_wrong(self._env, "its observation", "a str (a prompt)", prompt))
        return prompt

    def _info(self, info: dict[str, Any]) -> dict[str, float]:
        numbers = {key: info.get(key, 0) for key in self._info_keys}
        for key, value in numbers.items():
            # The bool of numpy is registered as no `Number`.
            if not isinstance(value, Number | np.bool_):
                raise TypeError(_wrong(self._env, f"the info {key!r}", "a number", value))
        return numbers


def _wrong(env: object, what: str, expected: str, value: object) -> str:
    return f"{what} of {type(env).__name__} must be {expected}, got {value!r:.200}"


from_single_agent = FromSingleAgent


@answers.register
def _(env: FromSingleAgent) -> Oracle:
    return answers(env._open_env())
