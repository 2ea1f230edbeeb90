"""Teams of three: hand-computed values of chains and of both kinds of trees, from rollout to gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.advantages import partner_returns, returns, visit_weights
from llm_decpomdp.algorithms.learning.completion_values import aggregate
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.checks import cost
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.joint import pairing
from llm_decpomdp.algorithms.rollouts.rollout import Group, Parent, Rollout, Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.policy import Completion
from tests.algorithms.conftest import Script

A, B, END = 1, 2, 0
TEAM = ("x", "y", "z")
ROWS = {"x": ((A, END), (B, END)), "y": ((END,), (A, B, A)), "z": ((A, A, END), (B,))}
"""The two completions of each agent, on every turn."""


def group(policy: Any, mode: str, rewards: Sequence[float], after: int | None = None) -> Group:
    return Group(
        turn=0 if after is None else 1,
        parent=None if after is None else Parent(0, after),
        prompts=dict.fromkeys(TEAM, "a"),
        completions={agent: tuple(map(policy.completion, rows)) for agent, rows in ROWS.items()},
        joint=pairing("aligned" if mode == "chain" else mode, 2, 3)(3).joint,
        rewards=tuple(rewards),
        infos=tuple({} for _ in rewards),
        chosen=1 if mode == "chain" else None,
    )


def grown(policy: Any, mode: str) -> Rollout:
    """Two turns; in trees the last joint sample ended the episode."""
    if mode == "cross":
        groups = (
            group(policy, mode, [0, 1, 3, 3, 4, 5, 6, 8]),
            group(policy, mode, [0, 4] * 4, after=0),  # mean 2
            group(policy, mode, [0, 8] * 4, after=5),  # mean 4
        )
    else:
        after = 1 if mode == "chain" else 0
        groups = (group(policy, mode, [3, 1]), group(policy, mode, [2, 6], after=after))
    return Rollout(Start(), groups)


def test_crossed_joint_samples_count_the_last_agent_fastest() -> None:
    assert pairing("aligned", 2, 3)(3).joint == ((0, 0, 0), (1, 1, 1))
    crossed = pairing("cross", 2, 3)(3).joint
    assert crossed[:3] == ((0, 0, 0), (0, 0, 1), (0, 1, 0)) and crossed[5] == (1, 0, 1)
    assert len(pairing("cross", 3, 3)(3).joint) == 27


def test_a_completion_is_worth_the_mean_over_all_partners_of_both_others(make_policy: Any) -> None:
    tree = grown(make_policy("unigram"), "cross")
    found = returns(tree, 0.5)[0]
    assert found.tolist() == [0 + 1, 1, 3, 3, 4, 5 + 2, 6, 8]
    x, y, z = (
        aggregate(partner_returns(tree.groups[0], found, agent), "mean").tolist()
        for agent in range(3)
    )
    assert x == [(1 + 1 + 3 + 3) / 4, (4 + 7 + 6 + 8) / 4] == [2.0, 6.25]
    assert y == [(1 + 1 + 4 + 7) / 4, (3 + 3 + 6 + 8) / 4] == [3.25, 5.0]
    assert z == [(1 + 3 + 4 + 6) / 4, (1 + 3 + 7 + 8) / 4] == [3.5, 4.75]
    assert visit_weights(tree) == [1.0, 1 / 8, 1 / 8]


@pytest.mark.parametrize("agents", [1, 2, 3, 4])
def test_the_scale_of_values_does_not_grow_with_the_number_of_agents(agents: int) -> None:
    joint = pairing("cross", 3, agents)(agents).joint
    empty: dict[str, tuple[Completion, ...]] = {}
    crossed = Group(0, None, {}, empty, joint, tuple(float(s[0]) for s in joint), ())
    values = aggregate(partner_returns(crossed, np.array(crossed.rewards), 0), "mean")
    assert values.tolist() == [0.0, 1.0, 2.0]


# Advantages of the first completion (the second has their negatives) with the mean as the baseline, and the
# groups' weights: turn weights (2, 3), in parts of the episodes that come there.
EXPECTED = {
    "chain": ({agent: [1.0, -2.0] for agent in TEAM}, [2.0, 3.0]),
    # 3 + 0.5 * 4 = 5 against 1
    "aligned": ({agent: [2.0, -2.0] for agent in TEAM}, [2.0, 1.5]),
    # On the second turn the last agent alone decides.
    "cross": (
        {"x": [-2.125, 0.0, 0.0], "y": [-0.875, 0.0, 0.0], "z": [-0.625, -2.0, -4.0]},
        [2.0, 0.375, 0.375],
    ),
}


@pytest.mark.parametrize("mode", EXPECTED)
def test_each_agents_gradient_is_the_one_computed_by_hand(make_policy: Any, mode: str) -> None:
    team = {agent: make_policy("unigram") for agent in TEAM}
    options = LearnerOptions(learning_rate=0.1, discount=0.5, turn_gradient_weights=(2.0, 3.0))
    Learner(team, ALGORITHMS["magrpo"], options).accumulate([grown(team["x"], mode)])
    advantages, weights = EXPECTED[mode]
    for agent, policy in team.items():
        theta = policy.model.bias.detach().clone().requires_grad_()
        logs = theta.log_softmax(0)
        first, second = (logs[list(row)].sum() for row in ROWS[agent])
        scale = sum(w * a for w, a in zip(weights, advantages[agent], strict=True))
        (expected,) = torch.autograd.grad(-scale * (first - second) / 2, theta)
        torch.testing.assert_close(policy.model.bias.grad, expected)


def test_three_agents_play_chains_and_trees(make_env: Any) -> None:
    team, env = {"x": Script("a", "b"), "y": Script("a", "b"), "z": Script("", "aa")}, make_env
    best, starts = RolloutOptions(branch_selection="best"), [Start()]
    (chain,) = collect_rollouts(env(2, TEAM), team, starts, best, group_size=2)
    assert [group.rewards for group in chain.groups] == [(2.0, 2.0)] * 2
    assert chain.groups[1].prompts == dict.fromkeys(TEAM, "aa")
    for mode in ("aligned", "cross"):
        options = RolloutOptions(mode="tree", joint_mode=mode)
        (tree,) = collect_rollouts(env(2, TEAM), team, starts, options, group_size=2)
        expected = cost(options, 2, 3, 2)
        assert len(tree.groups) == expected.groups
        assert sum(len(group.rewards) for group in tree.groups) == expected.joint_samples
    assert tree.groups[0].rewards == (2.0, 4.0, 1.0, 3.0, 1.0, 3.0, 0.0, 2.0)
    assert [group.prompts["y"] for group in tree.groups[1:4]] == ["aa", "aaaa", "ab"]
