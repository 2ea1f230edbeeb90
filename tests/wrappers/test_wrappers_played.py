"""Learners and evaluations play wrapped environments with the wrapper, in every turn and branch, without torch."""

from __future__ import annotations

import numpy as np
import pytest

from llm_decpomdp.agents.scripted import Constant, Gold, Replay
from llm_decpomdp.algorithms.rollouts.collection import (
    collect_rollouts,
    play_episodes,
)
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.benchmarks.evaluation.play import act_simultaneously, sample_row
from tests.conftest import WORDS
from tests.wrapper_cases import Counting, Greeting, Paying, Quoting, words

STARTS = [Start(seed=0), Start(seed=1)]


def chains(env, policy=None, size=2):
    team = dict.fromkeys(env.possible_agents, policy or Constant("no idea"))
    rng = np.random.default_rng(0)
    return collect_rollouts(env, team, STARTS, group_size=size, rng=rng)


def trees(env, policy=None, size=2):
    team = dict.fromkeys(env.possible_agents, policy or Constant("no idea"))
    return collect_rollouts(env, team, STARTS, RolloutOptions(plan="tree"), group_size=size)


def episodes(env, policy=None):
    team = dict.fromkeys(env.possible_agents, policy or Constant("no idea"))
    return [
        sample_row(rollout, 0)
        for rollout in play_episodes(env, team, STARTS, act=act_simultaneously)
    ]


PLANS = pytest.mark.parametrize("plan", [chains, trees])


@PLANS
def test_prompts_are_wrapped_in_every_turn_and_branch(plan):
    for rollout in plan(Greeting(words())):
        assert {group.turn for group in rollout.groups} == {0, 1, 2}
        for group in rollout.groups:
            assert all(text.startswith("Hello. ") for text in group.prompts.values())


@PLANS
def test_actions_are_wrapped_in_every_turn_and_branch(plan):
    for rollout in plan(Quoting(words())):
        later = [group for group in rollout.groups if group.turn > 0]
        for group in later:
            assert all("You wrote: > no idea" in text for text in group.prompts.values())


@PLANS
def test_rewards_are_wrapped_in_every_turn_and_branch(plan):
    for rollout in plan(Paying(words())):
        assert {reward for group in rollout.groups for reward in group.rewards} == {0.125}


@PLANS
def test_what_a_wrapper_keeps_is_kept_for_each_branch(plan):
    """Had the branches one counter, it would have counted the agents of all joint samples."""
    for rollout in plan(Counting(words()), size=3):
        for group in rollout.groups[1:]:
            said = {text.rpartition("(")[2] for text in group.prompts.values()}
            assert said == {f"{2 * group.turn})"}


@PLANS
def test_wrappers_in_wrappers_all_count(plan):
    for rollout in plan(Paying(Greeting(Quoting(words())))):
        last = rollout.groups[-1]
        assert set(last.rewards) == {0.125}
        for text in last.prompts.values():
            assert text.startswith("Hello. You wrote: > no idea")


def test_an_evaluation_counts_wrappers_and_keeps_the_record_of_what_they_hold():
    for row in episodes(Paying(Greeting(words()))):
        assert [group["rewards"] for group in row["groups"]] == [[0.125]] * 3
        for group, turn in zip(row["groups"], row["final"]["turns"], strict=True):
            for agent, text in group["prompts"].items():
                assert text == f"Hello. {turn['prompts'][agent]}"


def test_a_gold_policy_finds_the_answers_behind_wrappers():
    for row in episodes(Paying(Greeting(words())), Gold()):
        assert [group["rewards"] for group in row["groups"]] == [[1.125]] * 3


def test_each_joint_sample_is_judged_as_without_the_wrapper():
    """They step in threads, and each has a branch of its own."""
    texts = [*WORDS, "none of them"]
    env = words()
    plain, wrapped = (chains(one, Replay(texts * 50), len(texts)) for one in (env, Paying(env)))
    rewards = [group.rewards for chain in plain for group in chain.groups]
    assert any(len(set(group)) > 1 for group in rewards)
    assert [group.rewards for chain in wrapped for group in chain.groups] == [
        tuple(reward + 0.125 for reward in group) for group in rewards
    ]


def by_hand(env):
    """The rewards of the first start's turns."""
    env.reset(seed=0)
    rewards = []
    while env.agents:
        found = env.step(dict.fromkeys(env.agents, "no idea"))[1]
        rewards.append(next(iter(found.values())))
    return rewards


@PLANS
def test_supersuits_wrappers_count(plan):
    supersuit = pytest.importorskip("supersuit")
    for wrapped, turns in (
        (supersuit.reward_lambda_v0(words(), lambda reward: reward + 0.25), 3),
        (supersuit.frame_skip_v0(Paying(words()), 2), 2),  # each step plays two turns of three
    ):
        rewards = by_hand(wrapped)
        assert len(rewards) == turns and min(rewards) > 0.0
        (rollout, _) = plan(wrapped)
        for group in rollout.groups:
            assert set(group.rewards) == {rewards[group.turn]}
        assert {group.turn for group in rollout.groups} == set(range(turns))
