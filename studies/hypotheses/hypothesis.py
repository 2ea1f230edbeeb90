"""Hypotheses with their claim, measure and predictions, which are declared before the measurement.

A measure is a function from a seed to numbers by name. A clause predicts that the expectation of a weighted sum of
these numbers is on one side of a bound. All clauses of a hypothesis have to hold.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FIRST_SEED = 3000
"""First seed. Settings were tried on seeds from 1000 on, and earlier declarations used 0 and 2000 on."""

Measures = Mapping[str, float]
"""Numbers of a seed by name."""

Measure = Callable[[int], Measures]
"""Function from a seed to its numbers."""


@dataclass(frozen=True)
class Clause:
    """A prediction: the weighted sum of measures has an expectation above, or below, a bound."""

    words: str
    """The prediction in words."""
    weights: Mapping[str, float]
    """Weights of measures by name."""
    above: float | None = None
    below: float | None = None
    """Exactly one of `above` and `below` is the bound."""

    def __post_init__(self) -> None:
        if (self.above is None) == (self.below is None):
            raise ValueError(f"a clause needs one of above and below: {self.words!r}")

    @property
    def bound(self) -> float:
        """The bound."""
        return self.below if self.above is None else self.above  # type: ignore[return-value]

    def evaluate(self, measures: Measures) -> float:
        """Return the number of the clause for a seed.

        Raises:
            KeyError: If a measure is missing.
        """
        return sum(weight * measures[name] for name, weight in self.weights.items())

    def holds(self, value: float) -> bool:
        """Check whether a number lies on the predicted side."""
        return value < self.bound if self.above is None else value > self.bound


@dataclass(frozen=True)
class Hypothesis:
    """A hypothesis, which is declared before the measurement."""

    id: str
    """Id such as `H1`."""
    statement: str
    """The claim."""
    theory: str
    """Reason of the claim, or earlier results."""
    setting: str
    """Environment, policies and budget. Budgets are numbers of completions."""
    clauses: Sequence[Clause]
    """The predictions."""
    measure: Measure
    """A function at the top of a module, as other processes import it."""
    seeds: int = 20
    """Number of seeds, from `FIRST_SEED` on."""
    untested: str = ""
    """Parts of the claim without a clause."""

    @property
    def seed_numbers(self) -> range:
        """The seeds."""
        return range(FIRST_SEED, FIRST_SEED + self.seeds)

    def declaration(self) -> dict[str, Any]:
        """Return the declaration as a JSON-able mapping."""
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
    """Return the SHA-256 of a declaration."""
    text = json.dumps(declaration, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
