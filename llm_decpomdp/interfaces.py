"""The parts of an environment, beside its tasks: roles, a reward and a mode."""

from __future__ import annotations

import math
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

    An error that the reward raises gets a note with its class and the task.

    Raises:
        PartError: If it returns something else, other components than it declares, or points that are no finite
            numbers; names its class and the task.
    """
    name = type(reward).__name__
    try:
        verdict = reward(task, completions)
    except Exception as error:
        if hasattr(error, "add_note"):  # from Python 3.11 on
            error.add_note(f"raised by the reward {name} on the task {task.task_id!r}")
        raise
    if not isinstance(verdict, Verdict):
        raise PartError(
            f"the reward {name} must return a Verdict, got {reprlib.repr(verdict)} ({type(verdict).__name__}) on "
            f"the task {task.task_id!r}: return Verdict({{name: points}}, solved), with a name for each of its "
            "components"
        )
    declared, points = reward.components, verdict.components
    if len(points) != len(declared) or any(component not in points for component in declared):
        raise PartError(
            f"the reward {name} declares the components {list(declared)}, and its verdict on the task "
            f"{task.task_id!r} has {list(points)}: give points to each declared component, 0.0 where it earns none"
        )
    for component, value in points.items():
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise PartError(
                f"the reward {name} gives {value!r} for the component {component!r} on the task {task.task_id!r}: "
                "points are finite numbers"
            )
    return verdict


def check_prompts(mode: Mode, prompts: object, agents: Sequence[str], task: Any) -> None:
    """Raise a `PartError` unless a mode wrote a text for each agent, and for no other."""
    if isinstance(prompts, Mapping) and len(prompts) == len(agents):
        if all(isinstance(prompts.get(agent), str) for agent in agents):
            return
    found = list(prompts) if isinstance(prompts, Mapping) else prompts
    raise PartError(
        f"the mode {type(mode).__name__} must return a prompt (str) for each of the agents {list(agents)}, got "
        f"{reprlib.repr(found)} on the task {task.task_id!r}"
    )


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
