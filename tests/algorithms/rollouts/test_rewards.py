"""Rewards of environments that are no numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp.algorithms.rollouts.rollout import step_branches
from llm_decpomdp.completion import Completion


class Paying:
    """Pays every agent the same, once."""

    def __init__(self, reward: Any) -> None:
        self.reward = reward
        self.agents = ["x", "y"]

    def __deepcopy__(self, memo: Any) -> Paying:
        return Paying(self.reward)

    def step(self, actions: dict[str, str]) -> tuple[Any, ...]:
        agents, self.agents = self.agents, []
        kinds = ("", self.reward, True, False, {})
        return tuple(dict.fromkeys(agents, value) for value in kinds)


def reward_of(value: Any) -> float:
    samples: Any = [{"x": (Completion("a"),), "y": (Completion("b"),)}]
    env: Any = Paying(value)
    ((outcome,),) = step_branches([env], samples, [((0, 0),)])
    assert type(outcome.reward) is float
    return outcome.reward


@pytest.mark.parametrize("value", [None, "1", [1.0], {"x": 1.0}])
def test_a_reward_that_is_no_number_is_named(value: Any) -> None:
    with pytest.raises(
        TypeError, match=r"the reward of 'x' must be a finite number, got .*step\(\)"
    ):
        reward_of(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, np.float32("inf")])
def test_a_reward_that_is_not_finite_is_named(value: Any) -> None:
    with pytest.raises(
        ValueError, match=r"the reward of 'x' must be a finite number, got (nan|inf)"
    ):
        reward_of(value)


@pytest.mark.parametrize(
    "value",
    [1, True, np.float32(1.0), np.int64(1), np.bool_(True), np.array(1.0), torch.tensor(1.0)],
)
def test_numbers_of_all_kinds_are_rewards(value: Any) -> None:
    assert reward_of(value) == 1.0
