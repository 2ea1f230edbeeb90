"""Gradients and steps of a learner, for tests."""

from __future__ import annotations

from typing import Any

import torch

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions

A, B, END = 1, 2, 0
ROWS = [[A, B, END], [END], [B, B, B]]
MORE = [[B, END], [A, A, END], [B, B, A]]
MAGRPO, GRPO = ALGORITHMS["magrpo"], ALGORITHMS["grpo"]


def weights(policy: Any) -> torch.Tensor:
    return policy.model.bias.detach().clone()


def accumulated(policy: Any, chains: Any, team: Any = None, **options: Any) -> torch.Tensor:
    """The gradient that a learner accumulates over `chains`."""
    team = team or {"x": policy}
    learner = Learner(team, MAGRPO, LearnerOptions(learning_rate=0.1, **options))
    learner.accumulate(chains)
    found = policy.model.bias.grad
    return torch.zeros(3) if found is None else found.clone()


def learn(policy: Any, chains: Any, updates: int = 1, **options: Any) -> dict[str, float]:
    """The metrics of the last of some updates with the same chains."""
    learner = Learner({"x": policy}, MAGRPO, LearnerOptions(**{"learning_rate": 0.1, **options}))
    return [learner.update(chains) for _ in range(updates)][-1]
