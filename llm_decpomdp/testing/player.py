"""Play an environment under check: every returned value is checked against the rules and recorded."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from gymnasium import Space
from pettingzoo import ParallelEnv

from llm_decpomdp.branching import acting_agents, is_turn_based
from llm_decpomdp.interfaces import PartError
from llm_decpomdp.oracle import answers
from llm_decpomdp.seeding import stream
from llm_decpomdp.testing.rules import (
    ConformanceError,
    check_acting,
    check_flags,
    check_fresh,
    check_info,
    check_keys,
    check_observation,
    check_rewards,
    require,
    short,
)

TextEnv: TypeAlias = ParallelEnv[str, Any, Any]
Secrets: TypeAlias = Callable[[Any], Iterable[str]]


@dataclass(frozen=True)
class StepRecord:
    """Copy of the values that one `reset` or `step` returned, with the agents and state afterwards."""

    observations: Mapping[str, str]
    infos: Mapping[str, Mapping[str, float]]
    agents: tuple[str, ...]
    state: str
    """Global state; empty where the environment has none."""
    rewards: Mapping[str, float] | None = None
    terminations: Mapping[str, bool] | None = None
    truncations: Mapping[str, bool] | None = None


class Watched:
    """An environment whose every returned value is checked.

    Args:
        env: The environment.
        secrets: Returns the texts that no prompt may currently contain.
        spoil: Empty every dictionary after it was recorded, as a careless user might.
    """

    def __init__(self, env: TextEnv, secrets: Secrets | None, *, spoil: bool = False) -> None:
        self.env = env
        self.secrets = secrets
        self.spoil = spoil
        self._returned: dict[int, object] = {}
        self._info_keys: dict[str, set[str]] = {}

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> StepRecord:
        """Call and check `reset`."""
        with _parts_checked():
            result = self.env.reset(seed=seed, options=options)
        require(
            isinstance(result, tuple) and len(result) == 2,
            "reset() to return the tuple (observations, infos)",
            result,
            "Return both dictionaries.",
        )
        agents = list(self.env.agents)
        require(
            bool(agents) and set(agents) <= set(self.env.possible_agents),
            "live agents, out of possible_agents, after reset()",
            agents,
            "Set self.agents = list(self.possible_agents) in reset().",
        )
        observations, infos = result
        self._check_texts("reset()", observations, infos, agents)
        return self._record(observations, infos)

    def step(self, actions: dict[str, str]) -> StepRecord:
        """Call and check `step`."""
        live, acting = list(self.env.agents), acting_agents(self.env)
        # Actions of waiting agents change nothing, so one of two compared environments is not given them.
        inputs = {agent: actions[agent] for agent in acting} if self.spoil else actions
        result = _call_step(self.env, inputs)
        recipients = [a for a in self.env.possible_agents if a in (*live, *self.env.agents)]
        observations, rewards, terminations, truncations, infos = result
        names = ("rewards", "terminations", "truncations")
        for name, values in zip(names, result[1:4], strict=True):
            check_keys(f"the {name} of step()", values, recipients)
        self._check_texts("step()", observations, infos, recipients)
        check_rewards(rewards, infos)
        check_flags(terminations, truncations, self.env.agents)
        record = self._record(observations, infos, rewards, terminations, truncations)
        if self.spoil:
            inputs.clear()
        return record

    def _check_texts(self, where: str, observations: Any, infos: Any, agents: list[str]) -> None:
        check_keys(f"the observations of {where}", observations, agents)
        check_keys(f"the infos of {where}", infos, agents)
        for agent, info in infos.items():
            self._info_keys[agent] = check_info(agent, info, self._info_keys.get(agent))
        secrets = [] if self.secrets is None else list(self.secrets(self.env))
        for agent, prompt in observations.items():
            check_observation(agent, prompt, self.env.observation_space(agent), secrets)
        agents, turn_based = self.env.agents, is_turn_based(self.env)
        check_acting(acting_agents(self.env), agents, observations, infos, turn_based)

    def _record(self, observations: Any, infos: Any, *values: Any) -> StepRecord:
        """Copy what was returned, and see that no dictionary of it was returned before."""
        copies = copy.deepcopy((observations, infos))
        record = StepRecord(*copies, tuple(self.env.agents), self._state(), *map(dict, values))
        boxes = [observations, *values, infos, *infos.values()]
        check_fresh(boxes, self._returned)
        if self.spoil:
            for box in boxes:
                box.clear()
        return record

    def _state(self) -> str:
        if not hasattr(self.env, "state_space"):
            return ""
        state = self.env.state()
        require(
            self.env.state_space.contains(state),
            "state() to be in state_space",
            short(state),
            "Widen state_space, or return what it describes.",
        )
        return str(state)


@contextmanager
def _parts_checked() -> Iterator[None]:
    """Turn the mistake of a part's author into a broken rule."""
    try:
        yield
    except PartError as error:
        raise ConformanceError(
            "the parts of the environment to return what llm_decpomdp/interfaces.py says",
            str(error),
            "It is so for any completions.",
        ) from error


def _call_step(env: TextEnv, actions: dict[str, str]) -> tuple[Any, ...]:
    """Return what `step` returns, if it is five values."""
    try:
        with _parts_checked():
            result: Any = env.step(actions)
    except ConformanceError:
        raise
    except Exception as error:
        raise ConformanceError(
            "step() to accept any text of the action space",
            f"{type(error).__name__}: {error}, for the actions {short(actions)}",
            "A malformed completion is an action with a low reward, never an exception.",
        ) from error
    rule = "step() to return (observations, rewards, terminations, truncations, infos)"
    is_sound = isinstance(result, tuple) and len(result) == 5
    require(is_sound, rule, result, "Return all five dictionaries.")
    return tuple(result)


@dataclass(frozen=True)
class Trial:
    """A check: the environment, the seed and the completions."""

    make: Callable[[], TextEnv]
    seed: int
    max_turns: int
    texts: tuple[str, ...]
    secrets: Secrets | None

    @property
    def period(self) -> int:
        """Number of turns in which every kind of completion is used."""
        return len(self.texts) + 2

    def watch(self, env: TextEnv, *, spoil: bool = False) -> Watched:
        """Watch an environment."""
        return Watched(env, self.secrets, spoil=spoil)

    def actions(self, env: TextEnv, turn: int) -> dict[str, str]:
        """Return the live agents' completions, which depend on the trial's seed, the task and `turn` alone.

        In `period` turns every agent writes each of `texts` that its action space holds, and a
        sample; in the last of them all write their references, where the environment has any.
        """
        if turn % self.period == self.period - 1 and (answers := references(env)):
            return {agent: answers[agent] for agent in env.agents}
        actions = {}
        for index, agent in enumerate(env.possible_agents):
            if agent in env.agents:
                # By the place of the agent, too, so that agents write different texts in one turn.
                number = (turn + index) % (len(self.texts) + 1)
                text = self.texts[number] if number < len(self.texts) else None
                space = env.action_space(agent)
                if text is None or not space.contains(text):
                    text = self._sample(space, agent, turn)
                actions[agent] = text
        return actions

    def _sample(self, space: Space[Any], agent: str, turn: int) -> str:
        # A copy: sampling must not advance the generator of the environment's own space.
        sampler = copy.deepcopy(space)
        sampler.seed(int(stream(self.seed, "check", agent, turn).integers(2**31)))
        return str(sampler.sample())

    def play(self, watched: Watched, turn: int = 0) -> Iterator[StepRecord]:
        """Play to the end of the episode, beginning with the actions of `turn`.

        Raises:
            ConformanceError: If the episode outlives `max_turns`.
        """
        for step in range(self.max_turns):
            if not watched.env.agents:
                return
            yield watched.step(self.actions(watched.env, turn + step))
        require(
            not watched.env.agents,
            f"the episode to end within max_turns={self.max_turns} turns",
            f"live agents {watched.env.agents} after them",
            "Terminate all agents at the horizon, or pass a larger max_turns to check_env.",
        )


def references(env: TextEnv) -> dict[str, str]:
    """Return the correct completion of each agent; empty where some have none."""
    completions = answers(env).references
    return dict(completions) if set(env.possible_agents) <= set(completions) else {}


def difference(first: list[StepRecord], second: list[StepRecord]) -> str:
    """Describe the first difference between two courses of an episode."""
    for turn, records in enumerate(zip(first, second, strict=False)):
        for name, value in vars(records[0]).items():
            if value != (second_value := vars(records[1])[name]):
                return f"other {name} after {turn} turns: {short(value)}, {short(second_value)}"
    return f"{len(first) - 1} turns, then {len(second) - 1}"
