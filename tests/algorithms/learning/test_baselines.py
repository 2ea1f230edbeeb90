from __future__ import annotations

import numpy as np
import pytest

from llm_decpomdp.algorithms import ALGORITHMS, NAMES
from llm_decpomdp.algorithms.learning.advantages import BASELINES, advantages, mean
from tests.support.processes import python


def test_mean_is_the_group_mean_for_every_leading_shape() -> None:
    returns = np.array([[[1.0, 2.0, 6.0]], [[0.0, 0.0, 3.0]]])
    assert mean(returns).tolist() == [[[3.0] * 3], [[1.0] * 3]]


def test_equal_returns_have_advantages_of_exactly_zero() -> None:
    for value in (0.1, 1 / 3, 2.1, 1e9 + 0.7):
        assert not advantages(np.full((1, 7), value), mean).any()


@pytest.mark.parametrize("name", ["mean", "leave_one_out", "max"])
def test_sums_of_the_same_rewards_in_another_order_teach_nothing(name: str) -> None:
    returns = 1e3 * np.array([(0.1 + 0.2) + 0.3, 0.1 + (0.2 + 0.3), 0.6])
    assert len(set(returns)) == 2 and not advantages(returns, BASELINES[name]).any()
    assert advantages(np.array([1.0, 1.0 + 1e-9, 1.0]), BASELINES[name]).any()


def test_advantages_sum_to_zero_and_ignore_a_shift() -> None:
    returns = np.array([0.1, 0.9, 0.4, 0.4])
    found = advantages(returns, mean)
    assert found == pytest.approx([-0.35, 0.45, -0.05, -0.05])
    assert advantages(returns + 5, mean) == pytest.approx(found)


def test_normalised_advantages_have_the_spread_of_one_and_survive_equal_returns() -> None:
    found = advantages(np.array([[0.0, 0.2], [0.1 + 0.2, 0.3]]), mean, normalize=True)
    assert found[0] == pytest.approx([-1.0, 1.0])
    assert found[1].tolist() == [0.0, 0.0]


def test_normalising_keeps_the_shift_between_baselines() -> None:
    returns = np.array([0.0, 1.0, 3.0])
    no_baseline = advantages(returns, np.zeros_like, normalize=True)
    assert not np.allclose(no_baseline, advantages(returns, mean, normalize=True))


def test_algorithms_are_found_by_name_and_unknown_names_get_a_hint() -> None:
    assert ALGORITHMS["grpo"].baseline is BASELINES["mean"]
    assert [ALGORITHMS[name].name for name in ALGORITHMS] == list(NAMES)
    assert "magrpo" in ALGORITHMS and "ppo" not in ALGORITHMS
    with pytest.raises(KeyError, match="did you mean 'magrpo'"):
        ALGORITHMS["magrp"]


def test_importing_the_algorithms_and_the_rollout_loads_no_torch() -> None:
    code = (
        "import sys, llm_decpomdp.algorithms, llm_decpomdp.algorithms.rollouts.rollout\n"
        "import llm_decpomdp.algorithms.learning.advantages, llm_decpomdp.algorithms.training.metrics\n"
        "assert 'torch' not in sys.modules"
    )
    python("-c", code)
