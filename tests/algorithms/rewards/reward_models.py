"""Comparisons and reward models for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from llm_decpomdp.algorithms.rewards.comparisons import JointComparison, RewardModelOptions, Sample
from llm_decpomdp.algorithms.rewards.reward_model import Features, fit_reward_model
from tests.algorithms.critics.readers import HashedParts

AGENTS = ["x", "y"]


def letters_of(sample: Sample) -> float:
    """The reward of `EchoEnv`: the number of times that all say `a`."""
    return float("".join(sample.answers.values()).count("a"))


def comparisons(
    number: int, worth: Callable[[Sample], float] = letters_of, seed: int = 0, tasks: int = 10
) -> list[JointComparison]:
    """Pairs of random words of two letters, of some tasks, the one of more worth preferred."""
    rng, found = np.random.default_rng(seed), []
    while len(found) < number:
        prompts = dict.fromkeys(AGENTS, "".join(rng.choice(list("ab"), 2)))
        one, other = (
            Sample(prompts, {a: "".join(rng.choice(list("ab"), rng.integers(4))) for a in AGENTS})
            for _ in range(2)
        )
        if worth(one) != worth(other):
            better, worse = (one, other) if worth(one) > worth(other) else (other, one)
            found.append(JointComparison(f"task {len(found) % tasks}", better, worse))
    return found


def write_reward_model(
    folder: Path, features: Features | None = None, penalty: float = 0.01
) -> Path:
    """Write a reward model of `EchoEnv`; by default one that reads as the policies of `reading_team` do."""
    features = features or HashedParts(size=64)
    model = fit_reward_model(comparisons(80), AGENTS, features, RewardModelOptions(penalty=penalty))
    model.save(path := folder / "reward_model.pt")
    return path
