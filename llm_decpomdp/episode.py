"""The records of an episode: what was asked, answered and judged.

All of them are immutable and turn into JSON and back, so that an environment's state is a value: it can be
copied, stored, sent to another process and compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """What one test found."""

    case: str
    """The test's own text, as an agent may be shown it."""
    passed: bool
    status: str = "passed"
    """`passed`, `failed`, `error`, `timeout`, `memory`, `crashed` or `not_run`."""
    message: str = ""
    """Why it did not pass: "Type: text"."""
    origin: str = ""
    """The agent whose code raised, when the test failed with an exception."""
    line: int = 0
    """Line of `origin`'s code that raised, counted from 1; 0 where unknown."""


@dataclass(frozen=True)
class Verdict:
    """The judgement of one joint completion."""

    components: Mapping[str, float]
    """Points by name; their sum is the team's reward."""
    solved: bool
    """Whether the team earned full marks."""
    tests: tuple[Outcome, ...] = ()
    """All tests of the task, in order; empty where no test could be found."""
    error: Outcome | None = None
    """Why the joint program could not be loaded at all."""
    analysis: Mapping[str, str] = field(default_factory=dict)
    """What else the reward found and a mode may tell of, such as how each helper is used."""

    @property
    def reward(self) -> float:
        """The team's reward: the sum of the components."""
        return float(math.fsum(self.components.values()))

    @property
    def tests_passed(self) -> int:
        """How many of `tests` passed."""
        return sum(outcome.passed for outcome in self.tests)


@dataclass(frozen=True)
class Turn:
    """One joint decision: every agent's prompt and completion, and their verdict."""

    prompts: Mapping[str, str]
    completions: Mapping[str, str]
    verdict: Verdict


@dataclass(frozen=True)
class Episode:
    """The state of the Dec-POMDP: the task, all that has happened, and what each agent sees now."""

    task_id: str
    turns: tuple[Turn, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    """The current observation of each agent; empty strings once the episode is over."""

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary from which `from_json` rebuilds an equal episode."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Episode:
        """Rebuild an episode from `to_json`'s dictionary."""
        turns = tuple(
            Turn(dict(t["prompts"]), dict(t["completions"]), _verdict(t["verdict"]))
            for t in data["turns"]
        )
        return cls(data["task_id"], turns, dict(data["prompts"]))


def _verdict(data: Mapping[str, Any]) -> Verdict:
    error = data["error"]
    return Verdict(
        components=dict(data["components"]),
        solved=data["solved"],
        tests=tuple(Outcome(**outcome) for outcome in data["tests"]),
        error=Outcome(**error) if error is not None else None,
        analysis=dict(data.get("analysis", {})),
    )
