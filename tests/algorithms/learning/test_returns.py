"""Hand-computed values of two-turn trees and chains, and what each baseline makes of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from llm_decpomdp.algorithms import ALGORITHMS, Algorithm
from llm_decpomdp.algorithms.learning.advantages import (
    BASELINES,
    aggregate,
    group_advantages,
    partner_returns,
    returns,
    visit_weights,
)
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.joint import pairing
from llm_decpomdp.algorithms.rollouts.rollout import Group, Parent, Rollout, Start
from llm_decpomdp.policy import Completion

AGENTS = ("x", "y")
G = 2
DISCOUNT = 0.9


def group(
    rewards: Sequence[float],
    parent: tuple[int, int] | None = None,
    *,
    mode: str = "aligned",
    chosen: int | None = None,
    cut: Sequence[str] = (),
) -> Group:
    """A group of two completions an agent; both agents in `cut` hit the token limit at their first."""
    completions = {
        agent: (
            Completion("first", finish_reason="length" if agent in cut else "stop"),
            Completion("second"),
        )
        for agent in AGENTS
    }
    return Group(
        turn=0 if parent is None else 1,
        parent=None if parent is None else Parent(*parent),
        prompts=dict.fromkeys(AGENTS, ""),
        completions=completions,
        joint=pairing(mode, G, len(AGENTS))(len(AGENTS)).joint,
        rewards=tuple(rewards),
        infos=tuple({} for _ in rewards),
        chosen=chosen,
    )


ALIGNED = Rollout(
    Start(), (group([1.0, 0.0]), group([2.0, 4.0], (0, 0)), group([0.0, 1.0], (0, 1)))
)
CROSS = Rollout(
    Start(),
    (
        group([1.0, 0.0, 0.0, 2.0], mode="cross"),
        group([1.0, 2.0, 3.0, 4.0], (0, 0), mode="cross"),  # mean 2.5
        group([0.0, 0.0, 0.0, 4.0], (0, 1), mode="cross"),  # mean 1.0
        # joint sample 2 ended the episode
        group([2.0, 2.0, 2.0, 2.0], (0, 3), mode="cross"),  # mean 2.0
    ),
)
CHAIN = Rollout(Start(), (group([1.0, 0.0], chosen=0), group([2.0, 4.0], (0, 0), chosen=1)))


def advantages(rollout: Rollout, baseline: str, agent: str, **options: object) -> list[list[float]]:
    chosen = LearnerOptions(learning_rate=1.0, discount=DISCOUNT, **options)  # type: ignore[arg-type]
    found = group_advantages([rollout], AGENTS, Algorithm("test", BASELINES[baseline]), chosen)
    return [lesson.advantages[agent].tolist() for lesson in found]


def test_a_joint_sample_of_a_tree_earns_its_reward_and_the_discounted_mean_of_what_follows() -> (
    None
):
    found = returns(ALIGNED, DISCOUNT)
    assert found[0] == pytest.approx([1.0 + 0.9 * 3.0, 0.0 + 0.9 * 0.5])  # 3.7, 0.45
    assert [values.tolist() for values in found[1:]] == [[2.0, 4.0], [0.0, 1.0]]
    assert returns(ALIGNED, 0.0)[0].tolist() == [1.0, 0.0]
    assert returns(ALIGNED)[0].tolist() == [4.0, 0.5]


def test_a_third_turn_reaches_the_first_with_the_discount_squared() -> None:
    root, child = group([1.0, 1.0]), group([0.0, 2.0], (0, 1))
    grandchild = group([4.0, 8.0], (1, 0))
    found = returns(Rollout(Start(), (root, child, grandchild)), 0.5)
    assert found[1].tolist() == [0.0 + 0.5 * 6.0, 2.0]
    assert found[0].tolist() == [1.0, 1.0 + 0.5 * (3.0 + 2.0) / 2]


def test_in_a_cross_tree_a_completion_is_worth_the_mean_of_its_joint_samples() -> None:
    root = returns(CROSS, DISCOUNT)[0]
    assert root == pytest.approx([1.0 + 2.25, 0.0 + 0.9, 0.0, 2.0 + 1.8])  # 3.25, 0.9, 0, 3.8
    x, y = (aggregate(partner_returns(CROSS.groups[0], root, agent), "mean") for agent in (0, 1))
    assert x == pytest.approx([(3.25 + 0.9) / 2, (0.0 + 3.8) / 2])  # 2.075, 1.9
    assert y == pytest.approx([(3.25 + 0.0) / 2, (0.9 + 3.8) / 2])  # 1.625, 2.35


def test_the_samples_of_a_chain_are_credited_with_their_own_rewards() -> None:
    assert [values.tolist() for values in returns(CHAIN, DISCOUNT)] == [[1.0, 0.0], [2.0, 4.0]]


@pytest.mark.parametrize(
    ("baseline", "aligned", "cross_x", "cross_y", "chain"),
    [
        ("mean", [1.625, -1.625], [0.0875, -0.0875], [-0.3625, 0.3625], [0.5, -0.5]),
        ("leave_one_out", [3.25, -3.25], [0.175, -0.175], [-0.725, 0.725], [1.0, -1.0]),
        ("max", [0.0, -3.25], [0.0, -0.175], [-0.725, 0.0], [0.0, -1.0]),
        ("none", [3.7, 0.45], [2.075, 1.9], [1.625, 2.35], [1.0, 0.0]),
    ],
)
def test_advantages_of_the_first_turn_by_hand(
    baseline: str,
    aligned: list[float],
    cross_x: list[float],
    cross_y: list[float],
    chain: list[float],
) -> None:
    for agent in AGENTS:
        assert advantages(ALIGNED, baseline, agent)[0] == pytest.approx(aligned)
        assert advantages(CHAIN, baseline, agent)[0] == pytest.approx(chain)
    assert advantages(CROSS, baseline, "x")[0] == pytest.approx(cross_x)
    assert advantages(CROSS, baseline, "y")[0] == pytest.approx(cross_y)


def test_groups_count_by_the_share_of_the_episodes_that_reach_them() -> None:
    assert visit_weights(ALIGNED) == [1.0, 0.5, 0.5]
    assert visit_weights(CROSS) == [1.0, 0.25, 0.25, 0.25]
    assert visit_weights(CHAIN) == [1.0, 1.0]


def test_turn_weights_and_shares_multiply() -> None:
    options = LearnerOptions(learning_rate=1.0, turn_gradient_weights=(1.2, 0.8))
    for rollout, expected in ((ALIGNED, [1.2, 0.4, 0.4]), (CHAIN, [1.2, 0.8])):
        found = group_advantages([rollout], AGENTS, ALGORITHMS["magrpo"], options)
        assert [lesson.weight for lesson in found] == pytest.approx(expected)


def test_a_truncated_completion_costs_the_agent_that_wrote_it() -> None:
    rollout = Rollout(Start(), (group([1.0, 1.0], cut=["x"]),))
    options = {"truncated": "penalise", "truncation_penalty": 0.5}
    assert advantages(rollout, "mean", "x", **options) == [[-0.25, 0.25]]
    assert advantages(rollout, "mean", "y", **options) == [[0.0, 0.0]]
    assert advantages(rollout, "mean", "x") == [[0.0, 0.0]]


def test_returns_that_are_not_finite_name_the_start() -> None:
    rollout = Rollout(Start(task_id="task/3"), (group([1.0, float("nan")]),))
    with pytest.raises(FloatingPointError, match=r"task/3.*nan"):
        advantages(rollout, "mean", "x")


def test_the_four_baselines_differ_where_nothing_is_normalised() -> None:
    values = np.array([0.1, 0.9, 0.4, 0.4])
    found = [tuple(np.round(values - baseline(values), 9)) for baseline in BASELINES.values()]
    assert len(set(found)) == 4
