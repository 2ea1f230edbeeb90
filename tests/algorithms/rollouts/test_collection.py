"""Common partners: each completion of an agent meets the same choices of its partners'."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest

from llm_decpomdp import Completion, make
from llm_decpomdp.algorithms import Group, RolloutOptions, Start, collect_rollouts
from llm_decpomdp.algorithms.learning.advantages import leave_one_out, partner_returns
from llm_decpomdp.algorithms.rollouts.checks import cost
from llm_decpomdp.algorithms.rollouts.collection import align
from llm_decpomdp.algorithms.rollouts.joint import common, cross

SIZES = [(2, 2, 1), (3, 2, 2), (4, 3, 5), (2, 8, 4), (5, 1, 1)]
"""G, N and K."""


def group(pairing: Any, rewards: Any) -> Group:
    """A group of these joint samples, with a reward for each."""
    values = tuple(float(rewards(sample)) for sample in pairing.joint)
    return Group(0, None, {}, {}, pairing.joint, values, (), anchors=pairing.anchors)


def noisy(rng: np.random.Generator, group_size: int, num_agents: int) -> dict[Any, float]:
    """A reward for every joint sample there could be."""
    return {sample: float(rng.normal()) for sample in product(range(group_size), repeat=num_agents)}


@pytest.mark.parametrize(("group_size", "num_agents", "num_partners"), SIZES)
def test_every_completion_meets_the_same_different_partners_and_nothing_is_played_twice(
    group_size: int, num_agents: int, num_partners: int
) -> None:
    pairing = common(group_size, num_agents, num_partners, np.random.default_rng(0))
    assert len(set(pairing.joint)) == len(pairing.joint)
    assert len(pairing.joint) <= num_partners * (1 + num_agents * (group_size - 1))
    for agent in range(num_agents):
        partners = {(*anchor[:agent], *anchor[agent + 1 :]) for anchor in pairing.anchors}
        assert len(partners) == num_partners
        met = group(pairing, hash_of_partners(agent))
        columns = partner_returns(met, np.array(met.rewards), agent)
        assert columns.shape == (group_size, num_partners)
        assert (columns == columns[0]).all()


def hash_of_partners(agent: int) -> Any:
    return lambda sample: hash((*sample[:agent], *sample[agent + 1 :])) % 1009


@pytest.mark.parametrize(("group_size", "num_agents"), [(2, 2), (3, 2), (2, 3), (2, 4)])
def test_with_all_choices_of_partners_it_is_cross(group_size: int, num_agents: int) -> None:
    choices = group_size ** (num_agents - 1)
    pairing = common(group_size, num_agents, choices, np.random.default_rng(0))
    assert pairing.joint == cross(group_size, num_agents).joint


def test_of_one_agent_it_is_the_group_itself_as_in_grpo() -> None:
    assert common(4, 1, 1, np.random.default_rng(0)).joint == align(4, 1).joint


def test_all_partners_are_equally_likely() -> None:
    rng = np.random.default_rng(0)
    for agent in range(3):
        drawn = Counter(
            (*anchor[:agent], *anchor[agent + 1 :])
            for _ in range(3000)
            for anchor in common(2, 3, 1, rng).anchors
        )
        assert len(drawn) == 4 and all(650 < count < 850 for count in drawn.values())


@pytest.mark.parametrize(("group_size", "num_agents", "num_partners"), SIZES)
def test_advantages_of_rewards_are_those_of_difference_rewards(
    group_size: int, num_agents: int, num_partners: int
) -> None:
    rng = np.random.default_rng(1)
    rewards = noisy(rng, group_size, num_agents)
    pairing = common(group_size, num_agents, num_partners, rng)
    for agent in range(num_agents):
        idle = {  # what the partners of a sample earn if the agent does nothing
            partners: rng.normal() for partners in product(range(group_size), repeat=num_agents - 1)
        }
        plain = group(pairing, rewards.__getitem__)
        difference = group(
            pairing, lambda s, i=agent, of=idle: rewards[s] - of[(*s[:i], *s[i + 1 :])]
        )
        one, other = (
            partner_returns(found, np.array(found.rewards), agent).mean(-1)
            for found in (plain, difference)
        )
        if group_size > 1:
            np.testing.assert_allclose(
                one - leave_one_out(one), other - leave_one_out(other), atol=1e-12
            )


@pytest.mark.parametrize("num_agents", [2, 8, 16])
def test_what_partners_earn_by_themselves_is_no_noise_for_any_team(num_agents: int) -> None:
    rng = np.random.default_rng(2)
    worths = rng.normal(size=(num_agents, 4))
    pairing = common(4, num_agents, 1, rng)
    found = group(pairing, lambda s: sum(worths[agent, g] for agent, g in enumerate(s)))
    for agent in range(num_agents):
        values = partner_returns(found, np.array(found.rewards), agent).mean(-1)
        expected = worths[agent] - worths[agent].mean()
        np.testing.assert_allclose(values - values.mean(), expected, atol=1e-12)


class Letters:
    """Answers with a, b, c and so on."""

    def generate(self, prompts: Any, num_samples: int = 1) -> list[list[Completion]]:
        return [[Completion("abcdefgh"[g]) for g in range(num_samples)] for _ in prompts]

    def act(self, prompt: str) -> str:
        return "a"


class Refusing(Letters):
    """Must not be asked."""

    def generate(self, prompts: Any, num_samples: int = 1) -> list[list[Completion]]:
        raise AssertionError("sampled")


@pytest.mark.parametrize(("plan", "num_turns"), [("chain", 1), ("tree", 1)])
def test_a_team_of_eight_plays_the_announced_joint_samples(plan: str, num_turns: int) -> None:
    env = make("probe-noisy-partners-v0", num_agents=8)
    team = dict.fromkeys(env.possible_agents, Letters())
    rng = np.random.default_rng(3)
    options = RolloutOptions(mode=plan, joint_mode="common", num_partners=4)
    announced = cost(options, 4, 8, num_turns)
    assert (announced.completions, announced.joint_samples) == (4, 4 * (1 + 8 * 3))
    for _ in range(5):
        (rollout,) = collect_rollouts(env, team, [Start()], options, group_size=4, rng=rng)
        assert 4 * 24 < len(rollout.groups[0].rewards) <= announced.joint_samples


def test_bad_partners_are_refused_with_what_to_do_before_anything_is_sampled() -> None:
    env = make("probe-rendezvous-v0")
    team = dict.fromkeys(env.possible_agents, Refusing())
    with pytest.raises(ValueError, match="did you mean 'cross'"):
        RolloutOptions(mode="tree", joint_mode="crossed")
    with pytest.raises(ValueError, match="draws partners and needs rng"):
        options = RolloutOptions(mode="tree", joint_mode="common")
        collect_rollouts(env, team, [Start()], options, group_size=2)
    with pytest.raises(ValueError, match="is drawn that continues, which needs rng"):
        collect_rollouts(env, team, [Start()], group_size=2)
    with pytest.raises(ValueError, match="num_partners must be from 1 to 4, the choices of 1"):
        common(4, 2, 5, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"from 1 to 2, .* got 3"):
        cost(RolloutOptions(joint_mode="common", num_partners=3), 2, 2, 1)
    with pytest.raises(
        ValueError, match="means nothing with joint_mode=aligned: set joint_mode to c"
    ):
        RolloutOptions(num_partners=2)
    with pytest.raises(ValueError, match="joint_mode=common means nothing with mode=episodes"):
        RolloutOptions(mode="episodes", joint_mode="common")
