"""The declaration of a learning algorithm."""

from __future__ import annotations

from dataclasses import dataclass

from llm_decpomdp.algorithms.learning.baselines import Baseline


@dataclass(frozen=True)
class Algorithm:
    """What tells one learning algorithm from another."""

    name: str
    baseline: Baseline
    """What the returns of a group, of shape (..., G), are compared with."""
    multi_agent: bool = True
    """Whether it is meant for teams of more than one agent."""
    description: str = ""
    """How it learns, in a sentence for readers of a report."""
