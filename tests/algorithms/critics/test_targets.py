"""TD(lambda) by hand."""

from __future__ import annotations

import numpy as np
import pytest

from llm_decpomdp.algorithms.critics.critic import ChainTurn, lambda_targets

DISCOUNT = 0.5


def single(reward: float, following: float) -> ChainTurn:
    return ChainTurn(np.array([reward]), np.array([following]), 0)


CHAIN = [single(1.0, 4.0), single(2.0, 6.0), single(3.0, 0.0)]
"""Three states, of which the later two are thought to be worth 4 and 6; the episode ends after the third."""


@pytest.mark.parametrize(
    ("trace", "targets"),
    [
        (0.0, [1 + 0.5 * 4, 2 + 0.5 * 6, 3]),
        (0.5, [1 + 0.5 * (0.5 * 4 + 0.5 * 4.25), 2 + 0.5 * (0.5 * 6 + 0.5 * 3), 3]),
        (1.0, [1 + 0.5 * 2 + 0.25 * 3, 2 + 0.5 * 3, 3]),
    ],
)
def test_targets_of_a_chain_of_three_states_are_those_by_hand(
    trace: float, targets: list[float]
) -> None:
    assert lambda_targets(CHAIN, DISCOUNT, trace) == pytest.approx(targets)


def test_an_episode_that_a_time_limit_cut_off_ends_with_the_value_of_its_last_state() -> None:
    assert lambda_targets([single(1.0, 4.0)], DISCOUNT, 0.95) == [3.0]


def test_several_joint_samples_give_their_mean_and_only_the_chosen_one_what_followed() -> None:
    turn = ChainTurn(np.array([1.0, 3.0]), np.array([4.0, 0.0]), 0)
    chain = [turn, single(10.0, 0.0)]
    assert lambda_targets(chain, 1.0, 0.5) == [(5 + 3) / 2 + 0.5 * (10 - 4), 10.0]
    assert turn.following.tolist() == [4.0, 0.0]


def test_the_correction_by_a_sample_that_was_drawn_at_random_is_right_on_average() -> None:
    rewards, following, truth = np.array([1.0, 3.0]), np.array([4.0, 1.0]), [7.0, 2.0]
    targets = [
        lambda_targets([ChainTurn(rewards, following, c), single(truth[c], 0.0)], 1.0, 1.0)[0]
        for c in range(2)
    ]
    assert np.mean(targets) == pytest.approx(np.mean(rewards + truth))
