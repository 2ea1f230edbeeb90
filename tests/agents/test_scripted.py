"""Policies without a model."""

from __future__ import annotations

import pytest

import llm_decpomdp
from llm_decpomdp.agents.scripted import Constant, Gold, RandomText, Replay
from llm_decpomdp.algorithms import RolloutOptions, Start, collect_rollouts
from llm_decpomdp.oracle import answers
from llm_decpomdp.policy import Policy, policy_attribute


def test_all_keep_the_protocol() -> None:
    env = llm_decpomdp.make("coophumaneval-v0", source="bundled")
    for policy in (Constant(""), Replay([]), RandomText(0), Gold(env, "aux_0")):
        assert isinstance(policy, Policy)


def test_constant_answers_every_prompt_the_same() -> None:
    groups = Constant("yes").generate(["a", "b"], 3)
    assert [[one.text for one in group] for group in groups] == [["yes"] * 3] * 2
    assert groups[0][0].tokens == ()


def test_replay_answers_in_order_and_says_when_it_is_at_its_end() -> None:
    policy = Replay(["one", "two"])
    assert [policy.act(""), policy.act("")] == ["one", "two"]
    with pytest.raises(IndexError, match="all 2 texts"):
        policy.act("")


def test_random_text_depends_on_its_seed_alone() -> None:
    assert RandomText(5).act("a") == RandomText(5).act("b")
    assert RandomText(5).act("a") != RandomText(6).act("a")
    assert len(RandomText(0, length=7).act("")) == 7


def test_a_gold_team_earns_full_marks_and_random_text_earns_nothing() -> None:
    env = llm_decpomdp.make("coophumaneval-v0", source="bundled")
    for team, reward in (
        ({agent: Gold(env, agent) for agent in env.possible_agents}, 4.0),
        ({agent: RandomText(1) for agent in env.possible_agents}, 0.0),
    ):
        observations, _ = env.reset(seed=3)
        actions = {agent: team[agent].act(observations[agent]) for agent in env.agents}
        assert set(env.step(actions)[1].values()) == {reward}


def test_gold_says_when_the_data_has_no_reference() -> None:
    env = llm_decpomdp.make("humaneval-v0")
    env.reset(seed=0)
    with pytest.raises(LookupError, match="no reference for agent 'aux_0'"):
        Gold(env, "aux_0").act("")


def test_gold_answers_for_each_environment_and_agent_of_group_rollouts() -> None:
    env = llm_decpomdp.make("coophumaneval-v0", source="bundled")
    env.reset(seed=1)
    other = env.fork()
    other.reset(seed=2)
    gold = Gold()
    assert policy_attribute(gold, "generate_with_envs")
    groups = gold.generate_with_envs([env, other, env], ["aux_0", "aux_0", "main_0"], 3)
    wanted = [
        answers(env).reference("aux_0"),
        answers(other).reference("aux_0"),
        answers(env).reference("main_0"),
    ]
    assert [[one.text for one in group] for group in groups] == [[text] * 3 for text in wanted]
    assert len(set(wanted)) == 3


def test_gold_says_what_it_lacks() -> None:
    with pytest.raises(ValueError, match=r"write Gold\(env, agent\)"):
        Gold().act("a prompt")
    with pytest.raises(
        LookupError, match=r"object, which tells none .* no reference for agent 'a'"
    ):
        Gold().generate_with_envs([object()], ["a"])


def test_a_gold_team_earns_full_marks_in_group_rollouts() -> None:
    env = llm_decpomdp.make("coophumaneval-v0", source="bundled")
    gold = Gold()
    (tree,) = collect_rollouts(
        env,
        dict.fromkeys(env.possible_agents, gold),
        [Start(seed=3)],
        RolloutOptions(mode="tree"),
        group_size=2,
    )
    assert [group.rewards for group in tree.groups] == [(4.0, 4.0)]
