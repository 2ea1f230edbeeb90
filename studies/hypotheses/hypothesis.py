"""A hypothesis: what is claimed, how it is measured, and what would confirm or refute it, all said beforehand.

A measure is a function of a seed, which returns numbers by name. A clause is a number that is made of these, and
a bound: the hypothesis predicts that its expectation lies on one side. All clauses of a hypothesis have to hold.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FIRST_SEED = 3000
"""First seed that counts. Settings were tried from 1000 on, earlier declarations measured from 0 and 2000 on."""

Measures = Mapping[str, float]
"""What a seed gave, by name."""

Measure = Callable[[int], Measures]
"""From a seed to what it gives."""


@dataclass(frozen=True)
class Clause:
    """A prediction: the weighted sum of measures has an expectation above, or below, a bound."""

    words: str
    """What it says, as a sentence of a report."""
    weights: Mapping[str, float]
    """The weight of each measure that counts, by name."""
    above: float | None = None
    below: float | None = None
    """One of both is the bound."""

    def __post_init__(self) -> None:
        if (self.above is None) == (self.below is None):
            raise ValueError(f"a clause needs one of above and below: {self.words!r}")

    @property
    def bound(self) -> float:
        """The bound, whichever it is."""
        return self.below if self.above is None else self.above  # type: ignore[return-value]

    def evaluate(self, measures: Measures) -> float:
        """Return its number for a seed.

        Raises:
            KeyError: If a measure is missing.
        """
        return sum(weight * measures[name] for name, weight in self.weights.items())

    def holds(self, value: float) -> bool:
        """Check whether a number lies on the predicted side."""
        return value < self.bound if self.above is None else value > self.bound


@dataclass(frozen=True)
class Hypothesis:
    """A hypothesis, declared as a whole before anything is measured."""

    id: str
    """Such as `H1`."""
    statement: str
    """The claim."""
    theory: str
    """Why it should hold, or what is known of it."""
    setting: str
    """Environment, policies and budget; equal budgets are of completions."""
    clauses: Sequence[Clause]
    """What it predicts."""
    measure: Measure
    """A function of a module, which other processes import."""
    seeds: int = 20
    """Number of seeds, from `FIRST_SEED` on."""
    untested: str = ""
    """What of the claim, or of the plan for it, no clause speaks of."""

    @property
    def seed_numbers(self) -> range:
        """The seeds."""
        return range(FIRST_SEED, FIRST_SEED + self.seeds)

    def declaration(self) -> dict[str, Any]:
        """Return all that is said beforehand, as JSON has it."""
        return {
            "id": self.id,
            "statement": self.statement,
            "theory": self.theory,
            "setting": self.setting,
            "seeds": [*self.seed_numbers],
            "untested": self.untested,
            "clauses": [
                {
                    "words": clause.words,
                    "weights": dict(clause.weights),
                    "above": clause.above,
                    "below": clause.below,
                }
                for clause in self.clauses
            ],
        }


def fingerprint(declaration: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what is declared: whoever changes a part of it afterwards changes it."""
    text = json.dumps(declaration, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
