"""Credit of each agent for the team's reward: counterfactuals of stored episodes, executed and not estimated.

A joint sample is played again, in the state that it was sampled in, with some completions replaced: by null, which
is an empty text; by gold, which is the data's own answer; by other samples of the same agent. Nothing is sampled,
and no model is loaded. docs/cooperation.md says what each number is and where it comes from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, permutations
from statistics import fmean

import numpy as np

from llm_decpomdp.algorithms.rollouts.environment import StepOutcome, step
from llm_decpomdp.algorithms.rollouts.joint import align
from llm_decpomdp.benchmarks.analysis.replay import Replayed
from llm_decpomdp.benchmarks.evaluation.play import passes
from llm_decpomdp.oracle import answers
from llm_decpomdp.policy import Completion
from llm_decpomdp.seeding import stream

NULL = ""
"""The completion of an agent that is absent."""

# Rewards are sums of a few decimal constants, so that differences below are rounding.
TOLERANCE = 1e-9
"""Differences of rewards below this are none."""

# Enough programs for all cores, and few environments in memory.
AT_A_TIME = 32
"""Groups whose counterfactuals are played in step."""

Texts = tuple[str, ...]
"""A joint completion: the text of each agent."""


@dataclass(frozen=True)
class Credit:
    """The credit of one agent for the reward of one joint sample; all others say what they said."""

    line: int
    """Line of `episodes.jsonl`, counted from 1, as are turn, group and sample."""
    phase: str
    update: int
    task: str
    turn: int
    group: int
    sample: int
    agent: str
    reward: float
    """r(a): the team's reward of the joint sample, as it is played again."""
    silent: float
    """r(null): the reward if all agents say nothing."""
    difference: float
    """r(a) - r(null_i, a_-i): what would be lost without the agent."""
    shapley: float
    """The agent's share of r(a) - r(null)."""
    gold: float | None
    """r(gold_i, a_-i) - r(a): what the data's own answer would gain, perhaps less than nothing; `None` where the
    data has none."""
    own: float | None
    """r(a) less the mean of r(a'_i, a_-i) over the agent's other samples; `None` where there are none."""
    passed: bool
    """True if the joint sample passes, as in pass@k."""
    passed_without: bool
    """True if it passes without the agent."""

    @property
    def lazy(self) -> float | None:
        """Return 1 if the team earned more than by silence and as much as without the agent, else 0.

        `None` where there was nothing to have a part in.
        """
        if self.reward <= self.silent + TOLERANCE:
            return None
        return float(self.difference <= TOLERANCE)

    @property
    def dispensable(self) -> float | None:
        """Return 1 if the joint sample passes without the agent too, 0 if not; `None` where it does not pass."""
        return float(self.passed_without) if self.passed else None


def credits(groups: Iterable[Replayed], seed: int = 0) -> Iterator[Credit]:
    """Yield the credit of every agent for every joint sample of groups that were played again.

    Equal counterfactuals of a state are executed once.

    Args:
        groups: From `llm_decpomdp.benchmarks.analysis.replay.replay`.
        seed: Decides which orders of more than six agents their Shapley values are averaged over.

    Raises:
        SandboxError: If programs cannot be run.
    """
    pending = iter(groups)
    while batch := list(islice(pending, AT_A_TIME)):
        games = [_Game(group, seed) for group in batch]
        joints = [game.missing() for game in games]
        samples = [
            {
                agent: tuple(Completion(joint[i]) for joint in of_game)
                for i, agent in enumerate(game.agents)
            }
            for game, of_game in zip(games, joints, strict=True)
        ]
        pairs = [align(len(j), len(g.agents)).joint for g, j in zip(games, joints, strict=True)]
        results = step([game.replayed.env for game in games], samples, pairs)
        for game, of_game, outcomes in zip(games, joints, results, strict=True):
            game.outcomes.update(zip(of_game, outcomes, strict=True))
            yield from game.credits()


class _Game:
    """The joint completions of one state that its credits compare, and their outcomes."""

    def __init__(self, replayed: Replayed, seed: int) -> None:
        self.replayed = replayed
        place = replayed.place
        self.agents = list(place.group.completions)
        self.said = [[c.text for c in of_agent] for of_agent in place.group.completions.values()]
        self.gold = [_gold(replayed, agent) for agent in self.agents]
        # Orders depend on the place of the group alone, so that a part of a file gives the same
        # values.
        rng = stream(seed, "shapley", place.line, place.index)
        self.orders = orders(len(self.agents), rng)
        self.joints = [
            tuple(texts[index] for texts, index in zip(self.said, indices, strict=True))
            for indices in place.group.joint
        ]
        self.outcomes: dict[Texts, StepOutcome] = dict(
            zip(self.joints, replayed.outcomes, strict=True)
        )

    def missing(self) -> list[Texts]:
        """Return the joint completions that have to be played, each once."""
        # A dict keeps the order and drops repetitions, which sampling produces often.
        joints: dict[Texts, None] = {}
        subsets = coalitions(self.orders)
        for sample, joint in enumerate(self.joints):
            joints |= dict.fromkeys(_only(joint, subset) for subset in subsets)
            for agent, gold in enumerate(self.gold):
                texts = [*self._others(sample, agent), *gold, NULL]
                joints |= dict.fromkeys(_swap(joint, agent, text) for text in texts)
        return [joint for joint in joints if joint not in self.outcomes]

    def credits(self) -> Iterator[Credit]:
        """Yield the credits of a game whose `missing` were played."""
        for sample, joint in enumerate(self.joints):
            values = shapley(partial(self._worth, joint), self.orders)
            for agent, value in enumerate(values):
                yield self._credit(sample, agent, value)

    def _credit(self, sample: int, agent: int, value: float) -> Credit:
        joint = self.joints[sample]
        actual, without = self.outcomes[joint], self.outcomes[_swap(joint, agent, NULL)]
        gold, own = (
            [self._reward(_swap(joint, agent, text)) for text in texts]
            for texts in (self.gold[agent], self._others(sample, agent))
        )
        return Credit(
            **self.replayed.place.position(),
            phase=self.replayed.place.row["phase"],
            update=self.replayed.place.row["update"],
            sample=sample + 1,
            agent=self.agents[agent],
            reward=actual.reward,
            silent=self._worth(joint, frozenset()),
            difference=actual.reward - without.reward,
            shapley=value,
            gold=fmean(gold) - actual.reward if gold else None,
            own=actual.reward - fmean(own) if own else None,
            passed=passes(actual.info),
            passed_without=passes(without.info),
        )

    def _worth(self, joint: Texts, coalition: Coalition) -> float:
        return self._reward(_only(joint, coalition))

    def _reward(self, joint: Texts) -> float:
        return self.outcomes[joint].reward

    def _others(self, sample: int, agent: int) -> list[str]:
        """Return the agent's other samples in the group."""
        index = self.replayed.place.group.joint[sample][agent]
        return [text for number, text in enumerate(self.said[agent]) if number != index]


def _only(joint: Texts, coalition: Coalition) -> Texts:
    """Return a joint completion of some agents, while the others are absent."""
    return tuple(text if agent in coalition else NULL for agent, text in enumerate(joint))


def _swap(joint: Texts, agent: int, text: str) -> Texts:
    """Return a joint completion with another text of one agent."""
    return (*joint[:agent], text, *joint[agent + 1 :])


def _gold(replayed: Replayed, agent: str) -> tuple[str, ...]:
    """Return the data's answer for an agent, if it has one."""
    try:
        return (answers(replayed.env).reference(agent),)
    except LookupError:
        return ()


# 7! = 5,040 orders over 128 coalitions would multiply the programs to run.
EXACT = 6
"""Most players for whom all orders are taken: 720 of them, over 64 coalitions."""

DRAWN = 200
"""Orders that are drawn for more players: at most 200 N coalitions."""

Order = tuple[int, ...]
Coalition = frozenset[int]
"""Players, counted from 0."""


def orders(players: int, rng: np.random.Generator) -> list[Order]:
    """Return all orders of up to `EXACT` players; of more, `DRAWN` random ones.

    Args:
        players: N, at least 1.
        rng: Draws them.
    """
    if players <= EXACT:
        return list(permutations(range(players)))
    return [tuple(map(int, rng.permutation(players))) for _ in range(DRAWN)]


def coalitions(sample: Sequence[Order]) -> list[Coalition]:
    """Return the coalitions whose worth some orders ask for: the beginnings of each, from nobody to all."""
    starts = {frozenset(order[:size]) for order in sample for size in range(len(order) + 1)}
    return sorted(starts, key=lambda coalition: (len(coalition), sorted(coalition)))


def shapley(worth: Callable[[Coalition], float], sample: Sequence[Order]) -> list[float]:
    """Return the value of each player.

    Args:
        worth: v, defined for `coalitions(sample)`.
        sample: Orders of all players, from `orders`.
    """
    gains: list[list[float]] = [[] for _ in sample[0]]
    for order in sample:
        worths = [worth(frozenset(order[:size])) for size in range(len(order) + 1)]
        for player, before, after in zip(order, worths, worths[1:], strict=False):
            gains[player].append(after - before)
    # Exact sums: values of an order add up to v(all) - v(none) without rounding.
    return [math.fsum(values) / len(values) for values in gains]
