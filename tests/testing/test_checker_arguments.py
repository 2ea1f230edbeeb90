"""`check_env` takes an id, a function or an instance, and names whose mistake it found."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace

import gymnasium
import pytest

import llm_decpomdp
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.interfaces import PartError, TaskSet
from llm_decpomdp.testing.checker import check_env
from llm_decpomdp.testing.rules import ConformanceError
from tests import broken_envs as broken
from tests.conftest import CountMode, WordReward, Writer, word_env, word_tasks
from tests.foreign_envs import Rendezvous


def test_an_instance_is_checked_and_stays_as_it_is():
    for env in (word_env(), Rendezvous()):
        env.reset(seed=3)
        before = env.state()
        check_env(env)
        assert env.state() == before and env.agents


def test_an_instance_in_the_middle_of_an_episode_is_checked_too():
    env = word_env()
    env.reset(seed=0)
    env.step(dict.fromkeys(env.agents, "no"))
    check_env(env)


def test_defects_of_an_instance_are_named():
    with pytest.raises(ConformanceError, match="no secret in the prompt"):
        check_env(broken.ShowsAHiddenTest())


def test_an_instance_that_cannot_be_copied_is_named():
    env = Rendezvous()
    env.lock = threading.Lock()
    with pytest.raises(ConformanceError, match=r"copy\.deepcopy to copy the environment"):
        check_env(env)


def test_arguments_go_to_what_an_id_or_a_function_builds():
    check_env("probe-turns-v0", discount=0.5)
    check_env(word_env, num_turns=3, max_turns=3)
    with pytest.raises(ConformanceError, match="max_turns=2"):
        check_env(word_env, num_turns=3, stop_when_solved=False, max_turns=2)
    with pytest.raises(TypeError, match="unknown argument 'discont'; did you mean 'discount'"):
        check_env("probe-turns-v0", discont=0.5)


def test_an_instance_takes_no_arguments():
    with pytest.raises(TypeError, match=r"built already.*\['num_turns'\].*with an id"):
        check_env(word_env(), num_turns=3)


def test_an_environment_for_one_agent_is_refused_by_name():
    with pytest.raises(ConformanceError, match=r"a pettingzoo\.ParallelEnv; found "):
        check_env(gymnasium.make("CartPole-v1"))


# A reward without a verdict


class Plain(WordReward):
    """Returns a number, as rewards elsewhere do."""

    def __call__(self, task, completions):
        return super().__call__(task, completions).reward


class Nothing(WordReward):
    """Forgets to return."""

    def __call__(self, task, completions):
        super().__call__(task, completions)


def rewarded(reward):
    roles = (Writer("left_0"), Writer("right_0"))
    return DecPOMDPEnv("word_v0", word_tasks, roles, reward, CountMode())


@pytest.mark.parametrize(("reward", "found"), [(Plain(), "-0.5"), (Nothing(), "None")])
def test_a_reward_without_a_verdict_is_named(reward, found):
    env = rewarded(reward)
    env.reset(seed=0)
    text = f"the reward {type(reward).__name__} must return a Verdict, got {found} "
    with pytest.raises(PartError, match=text):
        env.step(dict.fromkeys(env.agents, ""))
    assert issubclass(PartError, TypeError)
    with pytest.raises(
        ConformanceError, match=f"the reward {type(reward).__name__} must"
    ) as caught:
        llm_decpomdp.check_env(lambda: rewarded(reward))
    assert "malformed completion" not in str(caught.value)


# Parts that do not fit together


class Silent(WordReward):
    """Leaves a declared component out."""

    def __call__(self, task, completions):
        verdict = super().__call__(task, completions)
        return replace(verdict, components={"word": verdict.components["word"]})


class Generous(WordReward):
    """Gives points for a component that it does not declare."""

    def __call__(self, task, completions):
        verdict = super().__call__(task, completions)
        return replace(verdict, components={**verdict.components, "bonus": 1.0})


class Undefined(WordReward):
    """Divides by nothing."""

    def __call__(self, task, completions):
        verdict = super().__call__(task, completions)
        return replace(verdict, components={**verdict.components, "word": float("nan")})


class Forgetful(CountMode):
    """Writes to one agent in the second turn."""

    def __call__(self, task, turn):
        prompts, infos = super().__call__(task, turn)
        return {"left_0": prompts["left_0"]}, infos


class Deaf(CountMode):
    """Writes to one agent at the start."""

    def first(self, task):
        return {"left_0": "write"}


@pytest.mark.parametrize(
    ("reward", "text"),
    [
        (Silent(), r"declares the components \['word', 'empty'\].*has \['word'\]"),
        (Generous(), r"has \['word', 'empty', 'bonus'\]"),
        (Undefined(), "gives nan for the component 'word' on the task 'word/"),
    ],
)
def test_a_verdict_has_the_declared_components_with_finite_points(reward, text):
    env = rewarded(reward)
    env.reset(seed=0)
    with pytest.raises(PartError, match=text):
        env.step(dict.fromkeys(env.agents, ""))
    with pytest.raises(ConformanceError, match=text):
        llm_decpomdp.check_env(lambda: rewarded(reward))


@pytest.mark.parametrize("mode", [Forgetful(), Deaf()])
def test_a_mode_writes_to_every_agent(mode):
    def build():
        roles = (Writer("left_0"), Writer("right_0"))
        return DecPOMDPEnv("word_v0", word_tasks, roles, WordReward(), mode)

    text = f"the mode {type(mode).__name__} must return a prompt .* got \\['left_0'\\]"
    env = build()
    with pytest.raises(PartError, match=text):
        env.reset(seed=0)
        env.step(dict.fromkeys(env.agents, ""))
    with pytest.raises(ConformanceError, match=text):
        llm_decpomdp.check_env(build)


@pytest.mark.parametrize("agents", [("left_0", "left_0"), ()])
def test_roles_have_agents_of_their_own(agents):
    with pytest.raises(ValueError, match="needs one role or more, each with an agent of its own"):
        DecPOMDPEnv("word_v0", word_tasks, list(map(Writer, agents)), WordReward(), CountMode())


def test_an_error_of_a_reward_names_the_reward_and_the_task():
    class Broken(WordReward):
        def __call__(self, task, completions):
            return 1 / 0

    env = rewarded(Broken())
    env.reset(seed=0, options={"task_id": "word/1"})
    with pytest.raises(ZeroDivisionError) as caught:
        env.step(dict.fromkeys(env.agents, ""))
    if sys.version_info >= (3, 11):
        (note,) = caught.value.__notes__
        assert note == "raised by the reward Broken on the task 'word/1'"


def test_a_set_of_tasks_is_not_empty_and_has_every_id_once():
    tasks = word_tasks().tasks
    with pytest.raises(ValueError, match=r"'mine' \(file, split 'train'\) is empty"):
        TaskSet((), "mine", "file", "train")
    with pytest.raises(ValueError, match=f"has 3 tasks with the id '{tasks[0].task_id}'"):
        TaskSet((*tasks, tasks[0], tasks[0]), "mine", "file", "train")
