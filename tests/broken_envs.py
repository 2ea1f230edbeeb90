"""Environments with one planted defect each."""

from __future__ import annotations

import ast
import random

import numpy as np
from gymnasium.utils import seeding

from llm_decpomdp import Oracle, UnicodeText, answers
from tests.foreign_envs import Plain, Rendezvous

CHANGED = {
    "ExtraObservation": (0, lambda old, found, over: old | {"third_0": ""}),
    "TextAsReward": (1, lambda old, found, over: dict.fromkeys(old, "bad")),
    "WholeNumberReward": (1, lambda old, found, over: dict.fromkeys(old, found)),
    "NumpyReward": (1, lambda old, found, over: dict.fromkeys(old, np.float64(found))),
    "InfiniteReward": (1, lambda old, found, over: dict.fromkeys(old, float("-inf"))),
    "MissingComponent": (1, lambda old, found, over: dict.fromkeys(old, found / 2 - 0.1)),
    "NumpyFlags": (2, lambda old, found, over: dict.fromkeys(old, np.bool_(over))),
    "OneLeavesEarly": (2, lambda old, found, over: old | {"left_0": True}),
    "BothFlags": (3, lambda old, found, over: dict.fromkeys(old, over)),
}
"""For each class the place of a value among the five of `step`, and what it is changed into."""


class Changed(Rendezvous):
    def result(self, actions, found, over):
        values = [*super().result(actions, found, over)]
        place, change = CHANGED[type(self).__name__]
        values[place] = change(values[place], found, over)
        return tuple(values)


for name in CHANGED:
    globals()[name] = type(name, (Changed,), {"__module__": __name__})


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


class UnequalRewards(Plain):
    def result(self, actions, found, over):
        result = super().result(actions, found, over)
        return (result[0], {"left_0": 1.0, "right_0": 0.0}, *result[2:])


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


@answers.register(ShowsAHiddenTest)
def _(env):
    return Oracle(secrets=["", "assert f(3) == 9"])


class OffersItsSecrets(Rendezvous):
    """A library that makes tools of public methods would hand the secrets to the model."""

    def secrets(self):
        return ["assert f(3) == 9"]
