"""The declaration of a learning algorithm."""

from __future__ import annotations

from dataclasses import dataclass

from llm_decpomdp.algorithms.learning.baselines import Baseline


@dataclass(frozen=True)
class Algorithm:
    """Declaration of a learning algorithm: a baseline, and for whom it is meant."""

    name: str
    baseline: Baseline
    """Subtracted from the returns of a group, of shape (..., G)."""
    multi_agent: bool = True
    """True if it is meant for teams of more than one agent."""
    description: str = ""
    """A sentence for readers of a report."""
