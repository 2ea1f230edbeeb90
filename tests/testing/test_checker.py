"""`check_env` accepts correct environments and names what is wrong with broken ones."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace

import gymnasium
import pytest
from gymnasium.spaces import Discrete, Text

import llm_decpomdp
from llm_decpomdp import DecPOMDPEnv, UnicodeText, answers, check_env
from llm_decpomdp.interfaces import PartError, TaskSet
from llm_decpomdp.testing.checker import ConformanceError
from llm_decpomdp.testing.player import Trial
from tests import broken_envs as broken
from tests.conftest import CountMode, WordReward, Writer, word_env, word_tasks
from tests.foreign_envs import Plain, Rendezvous
from tests.wrapper_cases import CountingActions

BROKEN = [
    (broken.RandomTextLater, "equal observations of step"),
    (broken.RandomTextAtReset, "equal observations of reset"),
    (broken.NumberAsObservation, "to be a str in its observation space; found 42"),
    (broken.TextAsReward, r"finite Python float; found 'bad' \(str\)"),
    (broken.EmptyInfos, r"infos of reset\(\) to be a dict with exactly the keys"),
    (broken.NeverEnds, "to end within max_turns=20"),
    (broken.SameDictTwice, "the same object twice"),
    (broken.SecondSeedIgnored, "start the same episode again"),
    (broken.NewSpaces, "return the same object at each call"),
    (broken.FlagsShareADict, "the same object twice"),
    (broken.InfosShareADict, "the same object twice"),
    (broken.ReturnsItsOwnState, "callers may change them"),
    (broken.KeepsTheActions, "equal observations of step"),
    (broken.ExtraObservation, r"observations of step\(\) to be a dict with exactly the keys"),
    (broken.WholeNumberReward, r"finite Python float; found \d \(int\)"),
    (broken.NumpyReward, r"\(float64\)"),
    (broken.InfiniteReward, "finite Python float; found -inf"),
    (broken.UnequalRewards, "the same team reward for every agent"),
    (broken.MissingComponent, "add up to the reward"),
    (broken.NumpyFlags, "terminations to be a Python bool"),
    (broken.BothFlags, "never both"),
    (broken.OneLeavesEarly, "agents to leave env.agents"),
    (broken.NobodyLeaves, "in the step in which they are done"),
    (broken.TextInInfos, r"found 'feedback': 'try again' \(str\)"),
    (broken.ChangingInfoKeys, "constant info keys of 'left_0'"),
    (broken.StepAfterEndFails, "five empty dictionaries"),
    (broken.EndlessAfterReset, "start the same episode again"),
    (broken.ReseedsWithAConstant, "found the same start eight times"),
    (broken.ReseedsFromTheSystem, "continue the generator"),
    (broken.RefusesNullBytes, "accept any text of the action space; found ValueError"),
    (broken.HoldsALambda, "pickle to copy the environment before"),
    (broken.CopiesWithoutGenerator, "made by pickle to continue exactly"),
    (broken.NoAgentsBeforeReset, "self.agents = "),
    (broken.BadNames, "agent names like 'role_0'.*'code_writer_0'"),
    (broken.NoName, "metadata with a 'name'"),
    (broken.StateOutsideItsSpace, "to be in state_space"),
    (
        broken.QuotesTheTeamMate,
        "nothing of the completion of 'left_0' in the next prompt of 'right_0'",
    ),
    (broken.QuotesTheTeamMatesCode, "nothing of the completion of 'left_0'"),
    (broken.TellsTheTeamMatesLength, "only through infos and rewards"),
    (broken.ShowsAHiddenTest, "no secret in the prompt"),
    (broken.OffersItsSecrets, r"not to be public methods.*found the methods \['secrets'\]"),
]


@pytest.mark.parametrize("make", [Rendezvous, Plain, broken.TellsTheTeamMatesLengthOpenly])
@pytest.mark.parametrize("seed", [0, 7])
def test_correct_environments_of_others_pass(make, seed):
    check_env(make, seed=seed)


@pytest.mark.parametrize(("make", "text"), BROKEN, ids=[make.__name__ for make, _ in BROKEN])
def test_each_planted_defect_is_named(make, text):
    with pytest.raises(ConformanceError, match=text):
        check_env(make)


def test_an_error_says_what_was_expected_and_found_and_the_remedy():
    with pytest.raises(AssertionError) as caught:
        check_env(broken.NumberAsObservation)
    assert caught.value.found == "42"
    assert str(caught.value) == (
        f"expected {caught.value.expected}; found 42. "
        "Return a str within the bounds of observation_space(agent)."
    )


def test_team_mates_may_read_each_other_where_that_is_said():
    for spelling in ("decentralized", "decentralised"):
        check_env(broken.QuotesTheTeamMate, **{spelling: False})


def test_secrets_may_be_named_by_the_caller():
    check_env(Rendezvous, secrets=lambda env: [env.word.upper()])
    with pytest.raises(ConformanceError, match="no secret"):
        check_env(Rendezvous, secrets=lambda env: [env.word])


def test_own_completions_are_played_too():
    class Fragile(Rendezvous):
        def step(self, actions):
            assert "xyzzy" not in actions.values(), "a hollow voice"
            return super().step(actions)

    with pytest.raises(ConformanceError, match="a hollow voice"):
        check_env(Fragile, completions=["xyzzy"])


def test_a_bound_below_one_is_refused_and_a_low_one_found():
    with pytest.raises(ValueError, match="max_turns must be at least 1, got 0"):
        check_env(Rendezvous, max_turns=0)
    with pytest.raises(ConformanceError, match="max_turns=2"):
        check_env(Rendezvous, max_turns=2)


def test_other_things_than_text_environments_are_refused():
    with pytest.raises(ConformanceError, match=r"a pettingzoo.ParallelEnv; found object"):
        check_env(object)
    with pytest.raises(ConformanceError, match=r"a pettingzoo\.ParallelEnv; found "):
        check_env(gymnasium.make("CartPole-v1"))
    with pytest.raises(KeyError, match="did you mean"):
        check_env("coophumanevl-v0")


def test_the_composed_environment_passes(make_word_env):
    for kwargs in ({}, {"num_turns": 1}, {"num_turns": 4, "stop_when_solved": False}):
        check_env(lambda kwargs=kwargs: make_word_env(**kwargs), max_turns=4)


def test_a_registered_id_is_made(monkeypatch, make_word_env):
    made = []
    monkeypatch.setattr(
        llm_decpomdp.registry, "make", lambda id: made.append(id) or make_word_env()
    )
    check_env("word-v0")
    assert set(made) == {"word-v0"}


class Chatty(CountMode):
    """A mode in which agents read each other."""

    info_keys = ()

    def __call__(self, task, turn):
        return dict.fromkeys(turn.completions, str(dict(turn.completions))), {}

    def secrets(self, task):
        return []


class Teacher(CountMode):
    """A mode that shows the tests."""

    info_keys = ()

    def __call__(self, task, turn):
        shown = "\n".join(turn.verdict.details["cases"])
        return dict.fromkeys(turn.completions, shown), {}

    def secrets(self, task):
        return [f"left_0 wrote {task.references['left_0']}"]


@pytest.mark.parametrize(
    ("mode", "text"),
    [(Chatty(), "nothing of the completion of 'left_0'"), (Teacher(), "no secret in the prompt")],
)
def test_leaking_modes_are_named(make_word_env, mode, text):
    with pytest.raises(ConformanceError, match=text):
        check_env(lambda: make_word_env(mode))


class Resumable(Rendezvous):
    """Somebody else's correct environment with a state that can be copied."""

    def snapshot(self):
        return {
            "agents": list(self.agents),
            "word": self.word,
            "turn": self.turn,
            "rng": self.rng.bit_generator.state,
        }

    def restore(self, snapshot):
        self.agents = list(snapshot["agents"])
        self.word, self.turn = snapshot["word"], snapshot["turn"]
        self.rng.bit_generator.state = snapshot["rng"]

    def fork(self):
        twin = type(self)()
        twin.restore(self.snapshot())
        return twin


class ForkSharesItsGenerator(Resumable):
    def fork(self):
        twin = super().fork()
        twin.rng = self.rng
        return twin


class ForkForgetsTheTurn(Resumable):
    def fork(self):
        twin = super().fork()
        twin.turn = 0
        return twin


class SnapshotIsNotJson(Resumable):
    def snapshot(self):
        return {**super().snapshot(), "seen": {self.word}}


class SnapshotOfIntegerKeys(Resumable):
    """JSON turns the keys into strings, which the restored environment cannot use."""

    def snapshot(self):
        return {**super().snapshot(), "turn": {1: self.turn}}

    def restore(self, snapshot):
        super().restore({**snapshot, "turn": snapshot["turn"].get(1, 0)})


class RestoreForgetsTheGenerator(Resumable):
    def restore(self, snapshot):
        super().restore({**snapshot, "rng": self.rng.bit_generator.state})

    def fork(self):
        twin = type(self)()
        Resumable.restore(twin, self.snapshot())
        return twin


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (ForkSharesItsGenerator, "change nothing in its original"),
        (ForkForgetsTheTurn, "a fork to continue exactly"),
        (SnapshotIsNotJson, r"a dictionary that is JSON; found TypeError"),
        (SnapshotOfIntegerKeys, "to give an equal snapshot"),
        (RestoreForgetsTheGenerator, "to give an equal snapshot"),
    ],
)
def test_broken_snapshots_and_forks_are_named(make, text):
    check_env(Resumable)
    with pytest.raises(ConformanceError, match=text):
        check_env(make)


def test_agents_write_every_text_and_their_references(make_word_env):
    env = make_word_env()
    env.reset(seed=0)
    trial = Trial(make_word_env, 0, 20, ("a", "b", "c"), None)
    turns = [trial.actions(env, turn) for turn in range(trial.period)]
    written = {answer for actions in turns for answer in actions.items()}
    assert {(agent, text) for agent in env.agents for text in "abc"} <= written
    assert {(agent, answers(env).reference(agent)) for agent in env.agents} <= written


SPACE = UnicodeText(100)


def test_all_cheap_rules_are_reported_at_once():
    class Wrong(Plain):
        def __init__(self):
            super().__init__()
            self.metadata = {}
            self.possible_agents = ["a", "b"]

        def observation_space(self, agent):
            return Discrete(3)

    with pytest.raises(ConformanceError) as caught:
        check_env(Wrong)
    text = str(caught.value)
    assert "found 7 broken rules" in text
    for part in ("metadata with a 'name'", "'a_0'", "'b_0'", "observation space of 'a'", "of 'b'"):
        assert part in text


def test_a_name_that_breaks_the_rule_is_answered_with_a_free_one_and_the_reason():
    class Numbered(Plain):
        def __init__(self):
            super().__init__()
            self.possible_agents = ["a1", "A1", "a_1"]

        def observation_space(self, agent):
            return SPACE

        action_space = observation_space

    with pytest.raises(ConformanceError) as caught:
        check_env(Numbered)
    text = str(caught.value)
    assert "found 'a1'. Rename it, for example to 'a_2'" in text
    assert "found 'A1'. Rename it, for example to 'a_3'" in text
    assert "the part before the underscore as the role" in text


def test_a_gymnasium_text_space_names_the_character_that_it_lacks():
    class Alphanumeric(Plain):
        def __init__(self):
            super().__init__()
            self.spaces = {agent: Text(1000) for agent in self.possible_agents}

        def observation_space(self, agent):
            return self.spaces[agent]

    with pytest.raises(ConformanceError, match=r"the character '.' at position \d+") as caught:
        check_env(Alphanumeric)
    assert "Use llm_decpomdp.UnicodeText(1000)" in caught.value.remedy


# `check_env` takes an id, a function or an instance, and names whose mistake it found


def test_an_instance_in_the_middle_of_an_episode_is_checked_and_stays_as_it_is():
    for env in (word_env(), Rendezvous()):
        env.reset(seed=3)
        env.step(dict.fromkeys(env.agents, "no"))
        before = env.state()
        check_env(env)
        assert env.state() == before and env.agents


def test_defects_of_an_instance_and_one_that_cannot_be_copied_are_named():
    with pytest.raises(ConformanceError, match="no secret in the prompt"):
        check_env(broken.ShowsAHiddenTest())
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
    with pytest.raises(TypeError, match=r"built already.*\['num_turns'\].*with an id"):
        check_env(word_env(), num_turns=3)


# Parts that do not fit together


class Returning(WordReward):
    """Returns what a function makes of the right verdict."""

    def __init__(self, change):
        self.change = change

    def __call__(self, task, completions):
        return self.change(super().__call__(task, completions))


def giving(**points):
    """A reward with other components; those of `None` are left out."""

    def change(verdict):
        changed = {**verdict.components, **points}
        return replace(verdict, components={k: v for k, v in changed.items() if v is not None})

    return Returning(change)


def team(reward=None, mode=None):
    roles = (Writer("left_0"), Writer("right_0"))
    return DecPOMDPEnv("word_v0", word_tasks, roles, reward or WordReward(), mode or CountMode())


class Forgetful(CountMode):
    """Writes to one agent in the second turn."""

    def __call__(self, task, turn):
        prompts, infos = super().__call__(task, turn)
        return {"left_0": prompts["left_0"]}, infos


class Deaf(CountMode):
    """Writes to one agent at the start."""

    def first(self, task):
        return {"left_0": "write"}


WRITES = r"must return a prompt .* got \['left_0'\]"


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"reward": Returning(lambda v: v.reward)}, "Returning must return a Verdict, got -0"),
        ({"reward": Returning(lambda v: None)}, "Returning must return a Verdict, got None "),
        (
            {"reward": giving(empty=None)},
            r"declares the components \['word', 'empty'\].*has \['word'\]",
        ),
        ({"reward": giving(bonus=1.0)}, r"has \['word', 'empty', 'bonus'\]"),
        (
            {"reward": giving(word=float("nan"))},
            "gives nan for the component 'word' on the task 'word/",
        ),
        ({"mode": Forgetful()}, f"the mode Forgetful {WRITES}"),
        ({"mode": Deaf()}, f"the mode Deaf {WRITES}"),
    ],
)
def test_what_a_part_must_return_is_named(parts, text):
    env = team(**parts)
    with pytest.raises(PartError, match=text) as caught:
        env.reset(seed=0)
        env.step(dict.fromkeys(env.agents, ""))
    assert isinstance(caught.value, TypeError)
    with pytest.raises(ConformanceError, match=text) as caught:
        llm_decpomdp.check_env(lambda: team(**parts))
    assert "malformed completion" not in str(caught.value)


@pytest.mark.parametrize("agents", [("left_0", "left_0"), ()])
def test_roles_have_agents_of_their_own(agents):
    with pytest.raises(ValueError, match="needs one role or more, each with an agent of its own"):
        DecPOMDPEnv("word_v0", word_tasks, list(map(Writer, agents)), WordReward(), CountMode())


def test_an_error_of_a_reward_names_the_reward_and_the_task():
    env = team(Returning(lambda verdict: 1 / 0))
    env.reset(seed=0, options={"task_id": "word/1"})
    with pytest.raises(ZeroDivisionError) as caught:
        env.step(dict.fromkeys(env.agents, ""))
    if sys.version_info >= (3, 11):
        (note,) = caught.value.__notes__
        assert note == "raised by the reward Returning on the task 'word/1'"


def test_a_set_of_tasks_is_not_empty_and_has_every_id_once():
    tasks = word_tasks().tasks
    with pytest.raises(ValueError, match=r"'mine' \(file, split 'train'\) is empty"):
        TaskSet((), "mine", "file", "train")
    with pytest.raises(ValueError, match=f"has 3 tasks with the id '{tasks[0].task_id}'"):
        TaskSet((*tasks, tasks[0], tasks[0]), "mine", "file", "train")


def test_actions_of_waiting_agents_must_not_count() -> None:
    with pytest.raises(ConformanceError, match="Ignore the actions of agents that wait"):
        check_env(lambda: CountingActions(llm_decpomdp.make("probe-relay-turns-v0")))
