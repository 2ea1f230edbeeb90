"""Credit of each agent for the team's reward, by counterfactuals of stored episodes.

Joint samples are played again, in the state in which they were sampled, with some completions replaced: by null
(an empty text), by gold (the data's own answer), or by other samples of the same agent. Nothing is sampled, and no
model is loaded. docs/cooperation.md has the definitions and their sources.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, permutations
from statistics import fmean

import numpy as np

from llm_decpomdp.algorithms.rollouts.collection import align
from llm_decpomdp.algorithms.rollouts.rollout import StepOutcome, step_branches
from llm_decpomdp.benchmarks.analysis.replay import Replayed
from llm_decpomdp.benchmarks.evaluation.play import passes
from llm_decpomdp.branching import require_simultaneous
from llm_decpomdp.oracle import answers
from llm_decpomdp.policy import Completion
from llm_decpomdp.seeding import stream

NULL = ""
"""The completion of an absent agent."""

# Rewards are sums of a few decimal constants, so smaller differences come from rounding.
TOLERANCE = 1e-9

# Groups whose counterfactuals run together: enough programs for all cores, few environments in memory.
AT_A_TIME = 32

Texts = tuple[str, ...]
"""A joint completion: the text of each agent."""


@dataclass(frozen=True)
class Credit:
    """The credit of one agent for the reward of one joint sample, with the completions of all others fixed."""

    line: int
    """Line of `episodes.jsonl`; this, turn, group and sample are counted from 1."""
    phase: str
    update: int
    task: str
    turn: int
    group: int
    sample: int
    agent: str
    reward: float
    """r(a): the team's reward of the replayed joint sample."""
    silent: float
    """r(null): the reward without any completion."""
    difference: float
    """r(a) - r(null_i, a_-i): the loss without the agent."""
    shapley: float
    gold: float | None
    """r(gold_i, a_-i) - r(a): the gain (or loss) by the data's own answer; `None` without one."""
    own: float | None
    """r(a) less the mean of r(a'_i, a_-i) over the agent's other samples; `None` without others."""
    passed: bool
    """True if the joint sample passes, as in pass@k."""
    passed_without: bool

    @property
    def lazy(self) -> float | None:
        """Return 1 if the reward is as high without the agent, else 0; `None` if it is not above r(null)."""
        if self.reward <= self.silent + TOLERANCE:
            return None
        return float(self.difference <= TOLERANCE)

    @property
    def dispensable(self) -> float | None:
        """Return 1 if the joint sample passes without the agent, else 0; `None` if it does not pass."""
        return float(self.passed_without) if self.passed else None


def credits(groups: Iterable[Replayed], seed: int = 0) -> Iterator[Credit]:
    """Yield the credit of every agent for every joint sample of replayed groups.

    Args:
        groups: Groups from `llm_decpomdp.benchmarks.analysis.replay.replay`.
        seed: Seed of the random orders for the Shapley values of more than six agents.

    Raises:
        SandboxError: If programs cannot be run.
        ValueError: If agents take turns.
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
        # Joint sample i takes the i-th text of every agent.
        pairs = [align(len(j), len(g.agents)).joint for g, j in zip(games, joints, strict=True)]
        results = step_branches([game.replayed.env for game in games], samples, pairs)
        for game, of_game, outcomes in zip(games, joints, results, strict=True):
            game.outcomes.update(zip(of_game, outcomes, strict=True))
            yield from game.credits()


class _Game:
    """The joint completions of one state and their outcomes."""

    def __init__(self, replayed: Replayed, seed: int) -> None:
        # The reward of an agent that others wait for comes in a later turn.
        require_simultaneous(replayed.env, "credit")
        self.replayed = replayed
        place = replayed.place
        self.agents = list(place.group.completions)
        self.said = [[c.text for c in of_agent] for of_agent in place.group.completions.values()]
        self.gold: list[list[str]] = []
        for agent in self.agents:
            try:
                self.gold.append([answers(replayed.env).reference(agent)])
            except LookupError:
                self.gold.append([])
        # Orders depend only on the place of the group, so that a part of a file gives equal values.
        self.orders = orders(len(self.agents), stream(seed, "shapley", place.line, place.index))
        self.joints = [
            tuple(texts[index] for texts, index in zip(self.said, indices, strict=True))
            for indices in place.group.joint
        ]
        self.outcomes: dict[Texts, StepOutcome] = dict(
            zip(self.joints, replayed.outcomes, strict=True)
        )

    def missing(self) -> list[Texts]:
        """Return the joint completions to play, each once."""
        # A dict drops repetitions, which sampling produces often, and keeps the order.
        joints: dict[Texts, None] = {}
        subsets = coalitions(self.orders)
        for sample, joint in enumerate(self.joints):
            joints |= dict.fromkeys(_only(joint, subset) for subset in subsets)
            for agent, gold in enumerate(self.gold):
                texts = [*self._others(sample, agent), *gold, NULL]
                joints |= dict.fromkeys(_swap(joint, agent, text) for text in texts)
        return [joint for joint in joints if joint not in self.outcomes]

    def credits(self) -> Iterator[Credit]:
        """Yield the credits, after the `missing` joint completions were played."""
        place = self.replayed.place
        for sample, joint in enumerate(self.joints):
            actual = self.outcomes[joint]
            worth = partial(self._worth, joint)
            for agent, value in enumerate(shapley(worth, self.orders)):
                without = self.outcomes[_swap(joint, agent, NULL)]
                gold, own = (
                    [self.outcomes[_swap(joint, agent, text)].reward for text in texts]
                    for texts in (self.gold[agent], self._others(sample, agent))
                )
                yield Credit(
                    **place.position(),
                    phase=place.row["phase"],
                    update=place.row["update"],
                    sample=sample + 1,
                    agent=self.agents[agent],
                    reward=actual.reward,
                    silent=worth(frozenset()),
                    difference=actual.reward - without.reward,
                    shapley=value,
                    gold=fmean(gold) - actual.reward if gold else None,
                    own=actual.reward - fmean(own) if own else None,
                    passed=passes(actual.info),
                    passed_without=passes(without.info),
                )

    def _worth(self, joint: Texts, coalition: Coalition) -> float:
        return self.outcomes[_only(joint, coalition)].reward

    def _others(self, sample: int, agent: int) -> list[str]:
        index = self.replayed.place.group.joint[sample][agent]
        return [text for number, text in enumerate(self.said[agent]) if number != index]


def _only(joint: Texts, coalition: Coalition) -> Texts:
    return tuple(text if agent in coalition else NULL for agent, text in enumerate(joint))


def _swap(joint: Texts, agent: int, text: str) -> Texts:
    return (*joint[:agent], text, *joint[agent + 1 :])


# Up to 6 players all 720 orders are taken, over 64 coalitions. The 5,040 orders of 7 players would need
# the programs of 128 coalitions.
EXACT = 6

DRAWN = 200
"""Number of random orders for more players: at most 200 N coalitions."""

Order = tuple[int, ...]
Coalition = frozenset[int]


def orders(players: int, rng: np.random.Generator) -> list[Order]:
    """Return all orders of up to `EXACT` players, or `DRAWN` random orders of more."""
    if players <= EXACT:
        return list(permutations(range(players)))
    return [tuple(map(int, rng.permutation(players))) for _ in range(DRAWN)]


def coalitions(sample: Sequence[Order]) -> list[Coalition]:
    """Return the coalitions that orders need: the beginnings of each, from the empty one to all players."""
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
        # An order of n players has n + 1 worths, from the empty coalition on.
        for player, before, after in zip(order, worths, worths[1:], strict=False):
            gains[player].append(after - before)
    # Exact sums: values of an order add up to v(all) - v(none) without rounding.
    return [math.fsum(values) / len(values) for values in gains]
