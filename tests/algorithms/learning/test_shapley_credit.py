"""Shapley values of completions, from the joint samples of a group, against the learners' own advantages."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np
import pytest

from llm_decpomdp.algorithms.learning.advantages import advantages, mean, partner_returns
from llm_decpomdp.algorithms.rollouts.joint import Pairing, align, common, cross
from llm_decpomdp.algorithms.rollouts.rollout import Group
from llm_decpomdp.benchmarks.analysis.credit import Coalition, orders, shapley
from llm_decpomdp.policy import Completion

G = 3
RNG = np.random.default_rng(4)

Rewards = Mapping[tuple[int, ...], float]
"""Reward of each joint sample."""


def played(pairing: Pairing, agents: int) -> tuple[Group, Rewards]:
    """A group with random rewards, in which completions interact."""
    rewards = dict(zip(pairing.joint, RNG.normal(size=len(pairing.joint)).tolist(), strict=True))
    texts = tuple(Completion(str(g)) for g in range(G))
    names = [f"agent_{i}" for i in range(agents)]
    group = Group(
        turn=0,
        parent=None,
        prompts=dict.fromkeys(names, ""),
        completions=dict.fromkeys(names, texts),
        joint=pairing.joint,
        anchors=pairing.anchors,
        rewards=tuple(rewards.values()),
        infos=({},) * len(rewards),
    )
    return group, rewards


def credit(rewards: Rewards, agent: int) -> np.ndarray:
    """The Shapley value of each completion of an agent, averaged over the joint samples that have it, (G,).

    v(S) is the mean reward of the joint samples in which the completions of S are those of the one at hand.
    """
    agents = len(next(iter(rewards)))
    of_completion: dict[int, list[float]] = {}
    for sample in rewards:

        def worth(coalition: Coalition, sample: tuple[int, ...] = sample) -> float:
            alike = (r for s, r in rewards.items() if all(s[i] == sample[i] for i in coalition))
            return float(np.mean(list(alike)))

        values = shapley(worth, orders(agents, RNG))
        total = worth(frozenset(range(agents))) - worth(frozenset())
        assert sum(values) == pytest.approx(total, abs=1e-12)  # efficiency
        of_completion.setdefault(sample[agent], []).append(values[agent])
    return np.array([np.mean(of_completion[g]) for g in range(G)])


def learned(group: Group, agent: int) -> np.ndarray:
    """The advantages of `mean`, (G,)."""
    table = partner_returns(group, np.array(group.rewards), agent)
    return advantages(table.mean(-1), mean)


def own(rewards: Rewards, pairing: Pairing, agent: int) -> Rewards:
    """The joint samples that an agent is compared by: each completion beside each choice of partners."""
    return {
        sample: rewards[sample]
        for g, anchor in product(range(G), pairing.anchors)
        for sample in [(*anchor[:agent], g, *anchor[agent + 1 :])]
    }


@pytest.mark.parametrize("agents", [2, 3])
def test_under_cross_credit_by_shapley_is_the_advantage(agents: int) -> None:
    group, rewards = played(cross(G, agents), agents)
    for agent in range(agents):
        np.testing.assert_allclose(credit(rewards, agent), learned(group, agent), atol=1e-12)


@pytest.mark.parametrize(("agents", "partners"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 4)])
def test_under_common_it_is_on_the_samples_that_an_agent_is_compared_by(
    agents: int, partners: int
) -> None:
    pairing = common(G, agents, partners, np.random.default_rng(partners))
    group, rewards = played(pairing, agents)
    for agent in range(agents):
        compared = own(rewards, pairing, agent)
        np.testing.assert_allclose(credit(compared, agent), learned(group, agent), atol=1e-12)


def test_on_all_samples_of_common_it_is_not() -> None:
    """Completions that are anchors meet more partners there, whose luck is in their mean."""
    group, rewards = played(common(G, 2, 1, np.random.default_rng(0)), 2)
    assert not np.allclose(credit(rewards, 0), learned(group, 0), atol=1e-3)


@pytest.mark.parametrize("agents", [2, 3])
def test_under_aligned_it_is_an_equal_share_of_the_advantage(agents: int) -> None:
    group, rewards = played(align(G, agents), agents)
    for agent in range(agents):
        np.testing.assert_allclose(
            credit(rewards, agent), learned(group, agent) / agents, atol=1e-12
        )
