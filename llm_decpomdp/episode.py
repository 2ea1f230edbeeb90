"""The records of an episode: prompts, completions and verdicts.

All of them are immutable and turn into JSON and back, so that an environment's state is a value: it can be
copied, stored, sent to another process and compared.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """The judgement of one joint completion."""

    components: Mapping[str, float]
    """Points by name; their sum is the team's reward."""
    solved: bool
    """True if the team earned full marks."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Findings of the family's own, JSON-able, such as the outcome of each test; kept with the episode."""
    analysis: Any = None
    """Findings for the mode, such as the code in each completion, so that nothing is read twice; not kept."""

    @property
    def reward(self) -> float:
        """The team's reward: the sum of the components."""
        return float(math.fsum(self.components.values()))


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
        """Return a JSON-able dictionary from which `from_json` rebuilds an equal episode."""
        data = asdict(self)
        for turn in data["turns"]:
            del turn["verdict"]["analysis"]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Episode:
        """Rebuild an episode from `to_json`'s dictionary."""
        turns = tuple(
            Turn(turn["prompts"], turn["completions"], Verdict(**turn["verdict"]))
            for turn in copy.deepcopy(data["turns"])
        )
        return cls(data["task_id"], turns, dict(data["prompts"]))
