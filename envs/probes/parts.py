"""Parts of the probes: tasks of single letters, players, points and cues."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from llm_decpomdp.episode import Turn, Verdict
from llm_decpomdp.parts import Component, Info
from llm_decpomdp.tasks import Task

Words = Sequence[str]
"""Answers of the agents, in their order."""


@dataclass(frozen=True)
class ProbeTask(Task):
    """A task of single letters; all tuples are in the order of the agents."""

    cues: tuple[str, ...] = field(kw_only=True)
    """First cue of each agent."""
    later_cues: tuple[str, ...] = field(kw_only=True)
    """Cue of each agent on later turns."""
    letters: tuple[str, ...] = field(kw_only=True)
    """Right answer of each agent on the last turn."""


@dataclass(frozen=True)
class Player:
    """A role: an agent that is shown its cue."""

    position: int

    @property
    def agent(self) -> str:
        """The agent's id."""
        return f"player_{self.position}"

    def reference(self, task: ProbeTask) -> str | None:
        """Return the right answer."""
        return task.letters[self.position]


@dataclass(frozen=True)
class Points:
    """A reward: the points of a rule for the words, and the offset."""

    rule: Callable[[ProbeTask, Words], float]
    offset: float
    components: ClassVar[Mapping[str, Component]] = {
        "points": Component("What the rules of the game give, 1.0 for full marks."),
        "offset": Component("A constant that every turn earns, whatever is said.", form=True),
    }

    @property
    def maximum(self) -> float:
        """Full marks plus the offset."""
        return 1.0 + self.offset

    def __call__(self, task: ProbeTask, completions: Mapping[str, str]) -> Verdict:
        """Judge a joint completion; one point is full marks."""
        points = self.rule(task, list(completions.values()))
        return Verdict({"points": points, "offset": self.offset}, math.isclose(points, 1.0))


@dataclass(frozen=True)
class Cues:
    """A mode: the later cues, or the first ones again where there is a password and it was not given."""

    password: str = ""
    """Required beginning of the first agent's answer."""
    info_keys: Sequence[str] = ("opened",)

    def first(self, task: ProbeTask) -> dict[str, str]:
        """Return the first cues."""
        return {Player(place).agent: cue for place, cue in enumerate(task.cues)}

    def __call__(self, task: ProbeTask, turn: Turn) -> tuple[dict[str, str], Info]:
        """Return the next prompt of each agent, and whether these are the later cues."""
        success = next(iter(turn.completions.values())).startswith(self.password)
        cues = task.later_cues if success else task.cues
        return dict(zip(turn.completions, cues, strict=True)), {"opened": float(success)}

    def secrets(self, task: ProbeTask) -> Sequence[str]:
        """Return none."""
        return ()
