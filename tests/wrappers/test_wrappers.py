"""A wrapped environment is branched, recorded and checked as a whole, and its answers come through."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from pettingzoo.utils import aec_to_parallel, parallel_to_aec
from pettingzoo.utils.wrappers import BaseParallelWrapper, MultiEpisodeParallelEnv

from llm_decpomdp import Oracle, answers, check_env, make
from llm_decpomdp.agents.scripted import Constant, Gold, Replay
from llm_decpomdp.algorithms import RolloutOptions, Start, collect_rollouts
from llm_decpomdp.algorithms.rollouts.play import play_episodes
from llm_decpomdp.benchmarks.evaluation.play import act_simultaneously, sample_row
from llm_decpomdp.branching import Forkable, branch, branches_in_threads, record
from llm_decpomdp.policy import Policy, TrainablePolicy, policy_attribute
from llm_decpomdp.testing.rules import ConformanceError
from tests.conftest import WORDS
from tests.foreign_envs import Rendezvous
from tests.support.processes import ROOT
from tests.wrapper_cases import Counting, Greeting, Locked, Paying, Quoting, words

# Branches


@pytest.mark.parametrize("wrapper", [Greeting, Quoting, Paying, Counting])
def test_a_branch_of_a_wrapper_is_wrapped_and_independent(wrapper):
    env, untouched = wrapper(words()), wrapper(words())
    for one in (env, untouched):
        one.reset(seed=0)
        for _ in range(2):
            one.step(dict.fromkeys(one.agents, "a"))
    twin = branch(env)
    assert type(twin) is wrapper and twin.env is not env.env
    assert type(twin.env) is type(env.env)
    actions = dict.fromkeys(env.agents, "b")
    played = twin.step(dict(actions))
    twin.reset(seed=3)
    assert played == env.step(dict(actions)) == untouched.step(dict(actions))
    assert not env.agents and twin.agents


def test_wrappers_are_branched_layer_by_layer():
    env = Paying(Greeting(words()))
    env.reset(seed=0)
    twin = branch(env)
    assert [type(twin), type(twin.env)] == [Paying, Greeting]
    assert twin.unwrapped is not env.unwrapped
    assert twin.unwrapped.tasks is env.unwrapped.tasks  # a fork, not a deep copy
    assert copy.deepcopy(env).unwrapped.tasks is env.unwrapped.tasks


def test_a_wrapper_that_keeps_something_is_copied_with_it():
    env = Counting(words())
    env.reset(seed=0)
    twin = branch(env)
    twin.step(dict.fromkeys(twin.agents, "a"))
    assert (env.seen, twin.seen) == ([], ["left_0", "right_0"])
    assert twin.same is twin.seen  # what was one thing stays one


def test_only_what_keeps_nothing_steps_in_threads():
    assert branches_in_threads(words()) and branches_in_threads(Paying(Greeting(words())))
    for env in (Counting(words()), Greeting(Counting(words())), Greeting(Rendezvous())):
        assert not branches_in_threads(env)


def test_a_wrapper_that_cannot_be_copied_is_named_with_the_remedy():
    with pytest.raises(TypeError, match=r"Locked cannot be branched.*method fork\(\)"):
        branch(Locked(words()))


def test_pettingzoos_own_wrappers_and_conversions_are_branched():
    for env in (
        MultiEpisodeParallelEnv(words(), 2),
        aec_to_parallel(parallel_to_aec(words())),
        Greeting(aec_to_parallel(parallel_to_aec(words()))),
    ):
        env.reset(seed=0)
        twin = branch(env)
        assert type(twin) is type(env)
        actions = dict.fromkeys(env.agents, "a")
        assert twin.step(dict(actions)) == env.step(dict(actions))


# One meaning of every protocol


class Delegate:
    """Has nothing of its own, and hands on everything."""

    def __init__(self, other):
        self.other = other

    def __getattr__(self, name):
        return getattr(self.other, name)


class Sampler:
    engine = "an engine"

    def generate(self, prompts, num_samples=1):
        return []

    def act(self, prompt):
        return ""


def test_what_is_handed_on_does_not_count():
    assert isinstance(words(), Forkable) and not isinstance(Greeting(words()), Forkable)
    assert isinstance(Sampler(), Policy) and policy_attribute(Sampler(), "engine") == "an engine"
    assert policy_attribute(Delegate(Sampler()), "engine") is None
    for protocol in (Policy, TrainablePolicy):
        assert not isinstance(Delegate(Sampler()), protocol)


@pytest.mark.parametrize(
    "folder", ["llm_decpomdp", "envs", "agents", "algorithms", "integrations", "benchmarks"]
)
def test_every_protocol_that_is_asked_for_is_of_typing_extensions(folder):
    """Those of `typing` ask `hasattr` before Python 3.12, and what hands on attributes has them all."""
    for path in (ROOT / folder).rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not ("runtime_checkable" in line and "from typing import" in line), path


# Records


def test_the_record_of_a_wrapped_episode_is_that_of_the_environment_in_it():
    env = Paying(Greeting(words()))
    env.reset(seed=0)
    env.step(dict.fromkeys(env.agents, "a"))
    found = record(env)
    assert found == env.unwrapped.snapshot()["episode"]
    json.dumps(found)
    assert "Hello" not in str(found["turns"][0]["prompts"])
    assert record(Greeting(Rendezvous())) is None


# Answers


def test_answers_come_through_wrappers():
    env = Paying(Greeting(make("coophumaneval-v0", source="bundled")))
    env.reset(seed=0)
    gold = answers(env)
    assert gold == answers(env.unwrapped)
    assert set(gold.references) == {"aux_0", "main_0"} and gold.secrets
    rewards = env.step({agent: gold.reference(agent) for agent in env.agents})[1]
    assert set(rewards.values()) == {4.125}


def test_a_class_of_somebody_else_tells_its_own_answers():
    class Mine(Rendezvous):
        pass

    class Shouting(BaseParallelWrapper):
        pass

    @answers.register(Mine)
    def tell(env):
        return Oracle(dict.fromkeys(env.possible_agents, env.word), [env.word.upper()])

    @answers.register(Shouting)
    def tell_loudly(env):
        found = answers(env.env)
        return Oracle({agent: text.upper() for agent, text in found.references.items()})

    env = Shouting(Greeting(Mine()))
    env.reset(seed=0)
    assert answers(env.env).reference("left_0") == env.word
    assert answers(env).reference("left_0") == env.word.upper()
    with pytest.raises(LookupError, match="no reference for agent 'nobody_0'"):
        answers(env).reference("nobody_0")
    assert answers(Rendezvous()) == Oracle(where=answers(Rendezvous()).where)


# check_env


@pytest.mark.parametrize("wrapper", [Greeting, Quoting, Counting])
def test_check_env_accepts_wrappers_that_learners_can_branch(wrapper):
    check_env(lambda: wrapper(words()))
    check_env(wrapper(Rendezvous()))


class Dropped(Greeting):
    """What the learners made of wrappers: its branches are without it."""

    def fork(self):
        return self.env.fork()


@pytest.mark.parametrize(
    ("wrapper", "text"),
    [
        (Dropped, "a branch of a Dropped to be another Dropped; found .* a DecPOMDPEnv"),
        (Locked, "TypeError: cannot pickle"),
    ],
)
def test_check_env_names_wrappers_that_learners_cannot_branch(wrapper, text):
    with pytest.raises(ConformanceError, match=text):
        check_env(lambda: wrapper(words()))


# Learners and evaluations play wrapped environments with the wrapper, in every turn and branch, without torch


STARTS = [Start(seed=0), Start(seed=1)]


def chains(env, policy=None, size=2):
    team = dict.fromkeys(env.possible_agents, policy or Constant("no idea"))
    rng = np.random.default_rng(0)
    return collect_rollouts(env, team, STARTS, group_size=size, rng=rng)


def trees(env, policy=None, size=2):
    team = dict.fromkeys(env.possible_agents, policy or Constant("no idea"))
    return collect_rollouts(env, team, STARTS, RolloutOptions(mode="tree"), group_size=size)


def episodes(env, policy=None):
    team = dict.fromkeys(env.possible_agents, policy or Constant("no idea"))
    return [
        sample_row(rollout, 0)
        for rollout in play_episodes(env, team, STARTS, act=act_simultaneously)
    ]


PLANS = pytest.mark.parametrize("plan", [chains, trees])


@PLANS
def test_prompts_actions_and_rewards_are_wrapped_in_every_turn_and_branch(plan):
    for rollout in plan(Paying(Greeting(Quoting(words())))):
        assert {group.turn for group in rollout.groups} == {0, 1, 2}
        for group in rollout.groups:
            assert set(group.rewards) == {0.125}
            begin = "Hello. You wrote: > no idea" if group.turn else "Hello. "
            assert all(text.startswith(begin) for text in group.prompts.values())


@PLANS
def test_what_a_wrapper_keeps_is_kept_for_each_branch(plan):
    """Had the branches one counter, it would have counted the agents of all joint samples."""
    for rollout in plan(Counting(words()), size=3):
        for group in rollout.groups[1:]:
            said = {text.rpartition("(")[2] for text in group.prompts.values()}
            assert said == {f"{2 * group.turn})"}


@pytest.mark.parametrize(("policy", "reward"), [(None, 0.125), (Gold(), 1.125)])
def test_an_evaluation_counts_wrappers_and_keeps_the_record_of_what_they_hold(policy, reward):
    for row in episodes(Paying(Greeting(words())), policy):
        assert [group["rewards"] for group in row["groups"]] == [[reward]] * 3
        for group, turn in zip(row["groups"], row["final"]["turns"], strict=True):
            for agent, text in group["prompts"].items():
                assert text == f"Hello. {turn['prompts'][agent]}"


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
