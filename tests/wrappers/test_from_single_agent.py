"""A foreign environment of texts becomes a team of one that learners can play."""

from __future__ import annotations

import gc
import random
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.wrappers import TimeLimit

from llm_decpomdp import Oracle, answers, check_env, from_single_agent, make, single_agent_view
from llm_decpomdp.agents import Constant, RandomText
from llm_decpomdp.algorithms import Start, collect_rollouts
from llm_decpomdp.testing.rules import ConformanceError

PARTNER = {"player_1": Constant("a")}


class Guess:
    """Guess a digit in three turns, in Gymnasium's manner and without its classes."""

    def reset(self, *, seed=None):
        self.digit = random.Random(seed).randrange(10)
        self.turn = 0
        return "Guess a digit.", {"tries": 0, "note": "text"}

    def step(self, text):
        self.turn += 1
        solved = text.strip() == str(self.digit)
        hint = "" if solved else f"Not {text[:20]!r}."
        return hint, solved, solved, self.turn == 3, {"tries": self.turn}


class Session(Guess):
    """Cannot be copied, nor pickled."""

    count = 0
    """Sessions that are open."""

    def __init__(self):
        Session.count += 1

    def close(self):
        Session.count -= 1

    def __reduce_ex__(self, protocol):
        raise TypeError("a connection cannot be copied")


class Unsteady(Guess):
    """Lets a global generator decide."""

    def reset(self, *, seed=None):
        prompt, info = super().reset(seed=seed)
        return f"{prompt} {random.random()}", info


def view():
    """A seat, which is a Gymnasium environment, under one of its wrappers."""
    return TimeLimit(single_agent_view(make("probe-turns-v0"), "player_0", PARTNER), 2)


@pytest.mark.parametrize(
    "build",
    [
        partial(from_single_agent, Guess, info_keys=("tries",)),
        partial(from_single_agent, Guess, agent="guesser_0", replay=True),
        partial(from_single_agent, Session, replay=True),
        partial(from_single_agent, view),
    ],
)
def test_check_env_accepts_a_team_of_one(build):
    check_env(build)


def test_what_cannot_be_copied_is_played_again():
    with pytest.raises(TypeError, match="a connection cannot be copied"):
        branched(from_single_agent(Session))
    twin = branched(from_single_agent(Session, replay=True))
    assert twin.step({"agent_0": "x"})[3] == {"agent_0": True}  # the third turn


def test_copies_that_replay_open_a_session_when_stepped_and_close_it():
    before = Session.count
    env = from_single_agent(Session, replay=True)
    twin = branched(env)
    assert Session.count == before + 1 and twin.metadata == env.metadata
    twin.step({"agent_0": "x"})
    assert Session.count == before + 2
    collect_rollouts(
        env, {"agent_0": RandomText()}, [Start(seed=1)], group_size=4, rng=np.random.default_rng(0)
    )
    del twin
    gc.collect()
    assert Session.count == before + 1
    env.close()
    env.close()
    assert Session.count == before


def test_a_replay_that_fails_leaves_no_session_open():
    before = Session.count
    env = from_single_agent(Session, replay=True)
    twin = branched(env)
    twin._texts += (3,)  # what the session cannot read
    with pytest.raises(AttributeError):
        twin.step({"agent_0": "x"})
    env.close()
    assert Session.count == before


def branched(env):
    env.reset(seed=0)
    for _ in range(2):
        env.step({"agent_0": "x"})
    return env.fork()


def test_check_env_names_an_environment_that_is_not_decided_by_its_seed():
    with pytest.raises(ConformanceError, match="equal seeds"):
        check_env(lambda: from_single_agent(Unsteady))


def test_ends_infos_and_unknown_tasks():
    env = from_single_agent(Guess, info_keys=("tries", "score"))
    assert str(env.metadata["name"]) == "Guess"
    _, infos = env.reset(seed=0, options={"options": 1})  # as PettingZoo's tests do
    assert infos == {"agent_0": {"tries": 0, "score": 0}}
    for _ in range(2):
        env.step({"agent_0": "x"})
    digit = str(env._env.digit)
    assert env.step({"agent_0": digit})[1:4] == (
        {"agent_0": 1.0},
        {"agent_0": True},
        {"agent_0": False},  # over the limit too, but ended
    )
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step({"agent_0": "x"})
    with pytest.raises(KeyError, match="Guess takes no options, so no task 'a'"):
        env.reset(options={"task_id": "a"})
    with pytest.raises(KeyError, match="unknown option of reset 'unknown'"):
        env.reset(options={"unknown": 1})
    with pytest.raises(TypeError, match=r"options must be a mapping such as .*, got \[1\]"):
        env.reset(options=[1])


def test_an_info_to_keep_is_a_number():
    with pytest.raises(TypeError, match=r"the info 'note' of Guess must be a number, got 'text'"):
        from_single_agent(Guess, info_keys=("note",)).reset(seed=0)


def test_seeds_reach_the_environment_and_are_drawn_where_none_is_given():
    env, same = from_single_agent(Guess), Guess()
    digits = []
    for seed in range(10):
        env.reset(seed=seed), same.reset(seed=seed)
        assert env._env.digit == same.digit
        env.reset()
        digits.append(env._env.digit)
    assert len(set(digits)) > 3


def test_options_reach_an_environment_that_takes_them():
    env = from_single_agent(view)
    task = make("probe-turns-v0").tasks.tasks[1]
    prompts, _ = env.reset(options={"task_id": task.task_id})
    twin, _ = make("probe-turns-v0").reset(options={"task_id": task.task_id})
    assert prompts["agent_0"] == twin["player_0"]


class Numbers(gymnasium.Env):
    """No texts."""

    def reset(self, *, seed=None, options=None):
        return 3, {}


class Older(Guess):
    """Gym's interface of before 2022."""

    def step(self, text):
        return super().step(text)[:4]


def test_what_is_no_environment_of_texts_is_named():
    with pytest.raises(TypeError, match=r"observation of Numbers must be a str .*, got 3"):
        from_single_agent(Numbers).reset(seed=0)
    env = from_single_agent(Older)
    env.reset(seed=0)
    with pytest.raises(TypeError, match=r"step\(text\) of Older must be \(text, reward"):
        env.step({"agent_0": "x"})


def test_a_foreign_class_tells_its_answers():
    @answers.register(Guess)
    def tell(env):
        return Oracle({"agent_0": str(env.digit)})

    env = from_single_agent(Guess)
    env.reset(seed=3)
    assert env.step({"agent_0": answers(env).reference("agent_0")})[1] == {"agent_0": 1.0}
