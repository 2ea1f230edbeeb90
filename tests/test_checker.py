"""`check_env` accepts correct environments and names what is wrong with broken ones."""

from __future__ import annotations

import ast
import random

import numpy as np
import pytest
from gymnasium.utils import seeding
from pettingzoo import ParallelEnv

import llm_decpomdp
from llm_decpomdp.checker import ConformanceError, check_env
from llm_decpomdp.spaces import UnicodeText
from llm_decpomdp.trial import Trial

WORDS = ("apple", "brook", "cedar", "delta", "ember")


class Rendezvous(ParallelEnv):
    """Somebody else's correct environment: both agents must write the word that they are shown."""

    metadata = {"name": "rendezvous_v0", "render_modes": []}  # noqa: RUF012

    def __init__(self):
        self.possible_agents = ["left_0", "right_0"]
        self.agents = []
        self.state_space = UnicodeText(100)
        self.spaces = {agent: UnicodeText(200_000) for agent in self.possible_agents}
        self.rng = seeding.np_random(0)[0]
        self.word = ""
        self.turn = 0

    def observation_space(self, agent):
        return self.spaces[agent]

    def action_space(self, agent):
        return self.spaces[agent]

    def state(self):
        return f"{self.word} {self.turn}"

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = seeding.np_random(seed)[0]
        self.agents = list(self.possible_agents)
        self.word = WORDS[int(self.rng.integers(len(WORDS)))]
        self.turn = 0
        return dict.fromkeys(self.agents, f"Write {self.word}."), self.infos(0.0, 0)

    def step(self, actions):
        if not actions and not self.agents:
            return {}, {}, {}, {}, {}
        found = sum(self.word in text for text in actions.values())
        self.turn += 1
        over = self.turn == 3
        result = self.result(actions, found, over)
        if over:
            self.agents = []
        return result

    def result(self, actions, found, over):
        reward = found / 2
        return (
            {agent: self.prompt(agent, actions, found) for agent in actions},
            dict.fromkeys(actions, reward),
            dict.fromkeys(actions, over),
            dict.fromkeys(actions, False),
            self.infos(reward, found),
        )

    def prompt(self, agent, actions, found):
        return f"{found} found it. Write {self.word}."

    def infos(self, reward, found):
        return {
            agent: {"reward/words": reward, "found": found, "any": found > 0}
            for agent in self.possible_agents
        }


class Plain(Rendezvous):
    """Correct, without a state, components or anything optional; ends by truncation."""

    def __init__(self):
        super().__init__()
        del self.state_space

    def result(self, actions, found, over):
        observations, rewards, ends, nothing, _ = super().result(actions, found, over)
        return observations, rewards, nothing, ends, {agent: {} for agent in actions}

    def reset(self, seed=None, options=None):
        observations, _ = super().reset(seed)
        return observations, {agent: {} for agent in observations}


# The nine defects that PettingZoo's own tests miss, most of them all


class RandomTextLater(Rendezvous):
    def prompt(self, agent, actions, found):
        return str(random.random()) if self.turn >= 2 else "go on"


class RandomTextAtReset(Rendezvous):
    def reset(self, seed=None, options=None):
        observations, infos = super().reset(seed)
        return {agent: str(random.random()) for agent in observations}, infos


class NumberAsObservation(Rendezvous):
    def prompt(self, agent, actions, found):
        return 42


class TextAsReward(Rendezvous):
    def result(self, actions, found, over):
        result = super().result(actions, found, over)
        result[1].update(dict.fromkeys(actions, "bad"))
        return result


class EmptyInfos(Rendezvous):
    def infos(self, reward, found):
        return {}


class NeverEnds(Rendezvous):
    def step(self, actions):
        self.turn = 0
        return super().step(actions)


class SameDictTwice(Rendezvous):
    def __init__(self):
        super().__init__()
        self.kept = {}

    def result(self, actions, found, over):
        result = list(super().result(actions, found, over))
        self.kept.update(result[3])
        return (*result[:3], self.kept, result[4])


class SecondSeedIgnored(Rendezvous):
    seeded = False

    def reset(self, seed=None, options=None):
        first, self.seeded = not self.seeded, True
        return super().reset(seed if first else None)


class NewSpaces(Rendezvous):
    def action_space(self, agent):
        return UnicodeText(100)


# Other broken rules


class FlagsShareADict(Rendezvous):
    def result(self, actions, found, over):
        result = super().result(actions, found, over)
        return (*result[:3], result[3] if over else result[2], result[4])


class InfosShareADict(Rendezvous):
    def infos(self, reward, found):
        shared = {"reward/words": reward}
        return dict.fromkeys(self.possible_agents, shared)


class ReturnsItsOwnState(Rendezvous):
    def reset(self, seed=None, options=None):
        self.notes, infos = super().reset(seed)
        return self.notes, infos

    def prompt(self, agent, actions, found):
        return self.notes.get(agent, "nothing noted")


class KeepsTheActions(Rendezvous):
    last = None

    def prompt(self, agent, actions, found):
        before = len(self.last) if self.last is not None else 2
        self.last = actions
        return f"{before} wrote"


class ExtraObservation(Rendezvous):
    def result(self, actions, found, over):
        result = super().result(actions, found, over)
        return ({**result[0], "third_0": ""}, *result[1:])


class WholeNumberReward(Rendezvous):
    def result(self, actions, found, over):
        result = super().result(actions, found, over)
        return (result[0], dict.fromkeys(actions, found), *result[2:])


class NumpyReward(Rendezvous):
    def result(self, actions, found, over):
        result = super().result(actions, found, over)
        return (result[0], dict.fromkeys(actions, np.float64(found)), *result[2:])


class InfiniteReward(Rendezvous):
    def result(self, actions, found, over):
        result = super().result(actions, found, over)
        return (result[0], dict.fromkeys(actions, float("-inf")), *result[2:])


class UnequalRewards(Plain):
    def result(self, actions, found, over):
        result = super().result(actions, found, over)
        return (result[0], {"left_0": 1.0, "right_0": 0.0}, *result[2:])


class MissingComponent(Rendezvous):
    def result(self, actions, found, over):
        result = super().result(actions, found, over)
        return (result[0], dict.fromkeys(actions, found / 2 - 0.1), *result[2:])


class NumpyFlags(Rendezvous):
    def result(self, actions, found, over):
        result = super().result(actions, found, over)
        return (*result[:2], dict.fromkeys(actions, np.bool_(over)), *result[3:])


class BothFlags(Rendezvous):
    def result(self, actions, found, over):
        result = super().result(actions, found, over)
        return (*result[:3], dict.fromkeys(actions, over), result[4])


class OneLeavesEarly(Rendezvous):
    def result(self, actions, found, over):
        result = super().result(actions, found, over)
        result[2]["left_0"] = True
        return result


class NobodyLeaves(Rendezvous):
    def step(self, actions):
        result = super().step(actions)
        self.agents = list(self.possible_agents)
        return result


class TextInInfos(Rendezvous):
    def infos(self, reward, found):
        return {agent: {"feedback": "try again"} for agent in self.possible_agents}


class ChangingInfoKeys(Rendezvous):
    def infos(self, reward, found):
        return {agent: {"final": 1} if self.turn == 3 else {} for agent in self.possible_agents}


class StepAfterEndFails(Rendezvous):
    def step(self, actions):
        return super().step(actions) if actions else None


class EndlessAfterReset(Rendezvous):
    """The turn survives a reset in the middle of an episode."""

    def reset(self, seed=None, options=None):
        turn = self.turn % 3
        result = super().reset(seed)
        self.turn = turn
        return result


class ReseedsWithAConstant(Rendezvous):
    def reset(self, seed=None, options=None):
        return super().reset(0 if seed is None else seed)


class ReseedsFromTheSystem(Rendezvous):
    def reset(self, seed=None, options=None):
        return super().reset(random.getrandbits(30) if seed is None else seed)


class RefusesNullBytes(Rendezvous):
    def step(self, actions):
        if any("\x00" in text for text in actions.values()):
            raise ValueError("source code string cannot contain null bytes")
        return super().step(actions)


class HoldsALambda(Rendezvous):
    def __init__(self):
        super().__init__()
        self.judge = lambda text: 0.0


class CopiesWithoutGenerator(Rendezvous):
    def __getstate__(self):
        return {**vars(self), "rng": seeding.np_random(5)[0]}


class NoAgentsBeforeReset(Rendezvous):
    def __init__(self):
        super().__init__()
        del self.agents


class BadNames(Rendezvous):
    def __init__(self):
        super().__init__()
        self.possible_agents = ["code_writer_0", "right_0"]


class NoName(Rendezvous):
    metadata = {"render_modes": []}  # noqa: RUF012


class StateOutsideItsSpace(Rendezvous):
    def state(self):
        return "x" * 200


class QuotesTheTeamMate(Rendezvous):
    def prompt(self, agent, actions, found):
        partner = next(other for other in actions if other != agent)
        return f"{partner} wrote: {actions[partner][-40:]}"


class QuotesTheTeamMatesCode(Rendezvous):
    """Normalised code has no comments, but it is the team-mate's all the same."""

    def prompt(self, agent, actions, found):
        partner = next(other for other in actions if other != agent)
        try:
            return ast.unparse(ast.parse(actions[partner]))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return "no code"


class TellsTheTeamMatesLength(Rendezvous):
    def prompt(self, agent, actions, found):
        return f"The team wrote {sum(len(text) for text in actions.values()) % 1000} characters."


class TellsTheTeamMatesLengthOpenly(TellsTheTeamMatesLength):
    """The same signal, but reported in the infos: allowed."""

    length = 0

    def step(self, actions):
        self.length = sum(len(text) for text in actions.values())
        return super().step(actions)

    def infos(self, reward, found):
        return {agent: {"length": self.length} for agent in self.possible_agents}

    def reset(self, seed=None, options=None):
        self.length = 0
        return super().reset(seed)


class ShowsAHiddenTest(Rendezvous):
    def prompt(self, agent, actions, found):
        return "Failed: assert f(3) == 9" if self.turn == 2 else "Failed."

    def secrets(self):
        return ["", "assert f(3) == 9"]


BROKEN = [
    (RandomTextLater, "equal observations of step"),
    (RandomTextAtReset, "equal observations of reset"),
    (NumberAsObservation, "to be a str in its observation space; found 42"),
    (TextAsReward, r"finite Python float; found 'bad' \(str\)"),
    (EmptyInfos, r"infos of reset\(\) to be a dict with exactly the keys"),
    (NeverEnds, "to end within max_turns=20"),
    (SameDictTwice, "the same object twice"),
    (SecondSeedIgnored, "start the same episode again"),
    (NewSpaces, "return the same object at each call"),
    (FlagsShareADict, "the same object twice"),
    (InfosShareADict, "the same object twice"),
    (ReturnsItsOwnState, "callers may change them"),
    (KeepsTheActions, "equal observations of step"),
    (ExtraObservation, r"observations of step\(\) to be a dict with exactly the keys"),
    (WholeNumberReward, r"finite Python float; found \d \(int\)"),
    (NumpyReward, r"\(float64\)"),
    (InfiniteReward, "finite Python float; found -inf"),
    (UnequalRewards, "the same team reward for every agent"),
    (MissingComponent, "add up to the reward"),
    (NumpyFlags, "terminations to be a Python bool"),
    (BothFlags, "never both"),
    (OneLeavesEarly, "all agents to end together"),
    (NobodyLeaves, "in the step in which they are done"),
    (TextInInfos, r"found 'feedback': 'try again' \(str\)"),
    (ChangingInfoKeys, "constant info keys of 'left_0'"),
    (StepAfterEndFails, "five empty dictionaries"),
    (EndlessAfterReset, "start the same episode again"),
    (ReseedsWithAConstant, "found the same start eight times"),
    (ReseedsFromTheSystem, "continue the generator"),
    (RefusesNullBytes, "accept any text of the action space; found ValueError"),
    (HoldsALambda, "pickle to copy the environment before"),
    (CopiesWithoutGenerator, "made by pickle to continue exactly"),
    (NoAgentsBeforeReset, "self.agents = "),
    (BadNames, "agent names like 'role_0'.*'code_writer_0'"),
    (NoName, "metadata with a 'name'"),
    (StateOutsideItsSpace, "to be in state_space"),
    (QuotesTheTeamMate, "nothing of the completion of 'left_0' in the next prompt of 'right_0'"),
    (QuotesTheTeamMatesCode, "nothing of the completion of 'left_0'"),
    (TellsTheTeamMatesLength, "only through infos and rewards"),
    (ShowsAHiddenTest, "no secret in the prompt"),
]


@pytest.mark.parametrize("make", [Rendezvous, Plain, TellsTheTeamMatesLengthOpenly])
@pytest.mark.parametrize("seed", [0, 7])
def test_correct_environments_of_others_pass(make, seed):
    check_env(make, seed=seed)


@pytest.mark.parametrize(("make", "text"), BROKEN, ids=[make.__name__ for make, _ in BROKEN])
def test_each_planted_defect_is_named(make, text):
    with pytest.raises(ConformanceError, match=text):
        check_env(make)


def test_an_error_says_what_was_expected_and_found_and_the_remedy():
    with pytest.raises(AssertionError) as caught:
        check_env(NumberAsObservation)
    assert caught.value.found == "42"
    assert str(caught.value) == (
        f"expected {caught.value.expected}; found 42. "
        "Return a str within the bounds of observation_space(agent)."
    )


def test_team_mates_may_read_each_other_where_that_is_said():
    check_env(QuotesTheTeamMate, decentralised=False)


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
    with pytest.raises(KeyError, match="did you mean"):
        check_env("coophumanevl-v0")


# Environments of our own class


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


class Chatty:
    """A mode in which agents read each other."""

    info_keys = ()

    def __call__(self, task, turn):
        return dict.fromkeys(turn.completions, str(dict(turn.completions))), {}

    def secrets(self, task):
        return []


class Teacher:
    """A mode that shows the tests."""

    info_keys = ()

    def __call__(self, task, turn):
        shown = "\n".join(test.case for test in turn.verdict.tests)
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
    assert {(agent, env.reference(agent)) for agent in env.agents} <= written
