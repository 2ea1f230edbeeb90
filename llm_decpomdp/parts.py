"""What an environment is composed of, beside its tasks: roles, a reward and a mode."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from llm_decpomdp.episode import Turn, Verdict

Info = dict[str, float]
"""The numbers that accompany an observation."""


class PartError(TypeError):
    """A part returned something of another kind than it must: its author's mistake, whatever the agents wrote."""


class Role(Protocol):
    """Who acts: an agent and what it is asked first."""

    @property
    def agent(self) -> str:
        """The agent's id, such as `main_0`."""
        ...

    def first_prompt(self, task: Any) -> str:
        """The agent's observation at the start of an episode."""
        ...

    def reference(self, task: Any) -> str | None:
        """A correct completion for this role in its team, where the data has one."""
        ...


@dataclass(frozen=True)
class Component:
    """What one component of a reward is for, to those who read a report."""

    text: str = ""
    """When it counts and how much, in a sentence."""
    form: bool = False
    """Whether the form of the answers alone earns it, however wrong they are."""


class Reward(Protocol):
    """Judges joint completions.

    A reward that knows how much a turn can earn at most says so in an attribute `maximum`.
    """

    @property
    def components(self) -> Collection[str]:
        """The names of the components of every verdict, in order; a mapping from them says what each is for."""
        ...

    def __call__(self, task: Any, completions: Mapping[str, str]) -> Verdict:
        """Judge one joint completion. Any text is legal; failures of our own raise."""
        ...


class Mode(Protocol):
    """The transition between turns: what each agent sees next."""

    @property
    def info_keys(self) -> Sequence[str]:
        """Names of numbers that the mode reports beside the prompts."""
        ...

    def __call__(self, task: Any, turn: Turn) -> tuple[dict[str, str], Info]:
        """The next prompt of each agent, and a value for each of `info_keys`."""
        ...

    def secrets(self, task: Any) -> Sequence[str]:
        """Texts that no prompt of this task may contain, such as hidden tests."""
        ...


def judge(reward: Reward, task: Any, completions: Mapping[str, str]) -> Verdict:
    """The verdict of a reward.

    Raises:
        PartError: If it returns something else; names its class.
    """
    verdict = reward(task, completions)
    if not isinstance(verdict, Verdict):
        raise PartError(
            f"the reward {type(reward).__name__} must return a Verdict, got {reprlib.repr(verdict)} "
            f"({type(verdict).__name__}): return Verdict({{name: points}}, solved), with a name for each of its "
            "components"
        )
    return verdict


def describe_reward(reward: Reward) -> dict[str, Any]:
    """What a reward says of itself, JSON-able.

    Returns:
        `maximum`, the most that a turn can earn, or `None` where that is not known, and `components`: for each
        name the fields of its `Component`, with an empty text where nothing is said.
    """
    said = reward.components if isinstance(reward.components, Mapping) else {}
    return {
        "maximum": getattr(reward, "maximum", None),
        "components": {name: asdict(said.get(name, Component())) for name in reward.components},
    }
