"""Gradients and steps of a learner, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from llm_decpomdp.algorithms import ALGORITHMS, Algorithm, Learner, LearnerOptions
from llm_decpomdp.options import names

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


def declare(algorithm: str, options: Mapping[str, Any]) -> tuple[Algorithm, LearnerOptions]:
    """Return an algorithm with its own options among these, and a learner's options of the others."""
    declared = ALGORITHMS[algorithm]
    own = names(declared.Options) if declared.Options else ()
    common = {name: value for name, value in options.items() if name not in own}
    learner = LearnerOptions(**{"learning_rate": 0.1, **common})
    return declared.configure(**{n: options[n] for n in options if n in own}), learner
