"""The parts of an environment, beside its tasks: roles, a reward and a mode."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from llm_decpomdp.episode import Turn, Verdict

MODES = (
    *("level_feedback", "level_passed", "passed", "plain"),
    *("expert_edits", "code_feedback"),
)
"""Names of the modes in this library, which mean the same in every environment that has them."""

Info = dict[str, float]
"""The numbers that accompany an observation."""


class PartError(TypeError):
    """A part returned something of another kind than it must: its author's mistake, whatever the agents wrote."""


class Role(Protocol):
    """A member of the team."""

    @property
    def agent(self) -> str:
        """The agent's id, such as `main_0`."""
        ...

    def reference(self, task: Any) -> str | None:
        """Return a correct completion for this role in its team, where the data has one."""
        ...


@dataclass(frozen=True)
class Component:
    """The description of a component of a reward, for those who read a report."""

    text: str = ""
    """Condition and points, in a sentence."""
    form: bool = False
    """True if the form of the answers alone earns it, however wrong they are."""


class Reward(Protocol):
    """Judges joint completions.

    Attributes that a reward may have: `maximum`, the most that a turn can earn; `info_keys`, the names of the
    numbers in `Verdict.details` that the infos repeat; `notes`, a function of `Verdict.details` that returns lines
    for the transcript.
    """

    @property
    def components(self) -> Collection[str]:
        """The names of the components of every verdict, in order, or a mapping from them to `Component`."""
        ...

    def __call__(self, task: Any, completions: Mapping[str, str]) -> Verdict:
        """Judge one joint completion. Any text is legal; failures of our own raise."""
        ...


class Mode(Protocol):
    """Writes every observation."""

    @property
    def info_keys(self) -> Sequence[str]:
        """Names of numbers that the mode reports beside the prompts."""
        ...

    def first(self, task: Any) -> dict[str, str]:
        """Return the first prompt of each agent."""
        ...

    def __call__(self, task: Any, turn: Turn) -> tuple[dict[str, str], Info]:
        """Return the next prompt of each agent, and a value for each of `info_keys`."""
        ...

    def secrets(self, task: Any) -> Sequence[str]:
        """Return texts that no prompt of this task may contain, such as hidden tests."""
        ...


def judge(reward: Reward, task: Any, completions: Mapping[str, str]) -> Verdict:
    """Return the verdict of a reward.

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
    """Describe a reward by JSON-able data.

    Returns:
        `maximum`, the most that a turn can earn, or `None` where that is not known, and `components`: for each
        name the fields of its `Component`, with an empty text where the reward has none.
    """
    texts = reward.components if isinstance(reward.components, Mapping) else {}
    return {
        "maximum": getattr(reward, "maximum", None),
        "components": {name: asdict(texts.get(name, Component())) for name in reward.components},
    }


def notes(reward: Reward, verdict: Verdict) -> list[str]:
    """Return the lines of the transcript that a reward has for the details of a verdict."""
    describe = getattr(reward, "notes", None)
    return [] if describe is None else list(describe(verdict.details))
