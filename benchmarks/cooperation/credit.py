"""Who earned the team's reward: counterfactuals of stored episodes, executed and not estimated.

A joint sample is played again, in the state that it was sampled in, with some completions replaced: by null, which
is an empty text; by gold, which is the data's own answer; by other samples of the same agent. Nothing is sampled,
and no model is loaded. docs/cooperation.md says what each number is and where it comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean
from typing import Any

from llm_decpomdp.algorithms.rollouts.rollout import Outcome, step
from llm_decpomdp.benchmarks.cooperation.replay import Place, Replayed
from llm_decpomdp.benchmarks.cooperation.shapley import Coalition, coalitions, orders, shapley
from llm_decpomdp.benchmarks.evaluation.measures import passes
from llm_decpomdp.benchmarks.runs.results import task_name
from llm_decpomdp.policy import Completion
from llm_decpomdp.privileged import answers
from llm_decpomdp.seeding import stream

NULL = ""
"""The completion of an agent that is absent."""

TOLERANCE = 1e-9
"""Differences of rewards below this are none."""

AT_A_TIME = 32
"""Groups whose counterfactuals are played in step."""

Indices = tuple[int, ...]
"""A joint completion: for each agent the index of a text among those that it may say."""


@dataclass(frozen=True)
class Credit:
    """What one agent did for the reward of one joint sample; all others say what they said."""

    line: int
    """Of `episodes.jsonl`, counted from 1, as are turn, group and sample."""
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
    """Whether the joint sample passes, as in pass@k."""
    passed_without: bool
    """Whether it passes without the agent."""

    @property
    def lazy(self) -> float | None:
        """1 if the team earned more than by silence and would have earned as much without the agent, else 0.

        `None` where there was nothing to have a part in.
        """
        if self.reward <= self.silent + TOLERANCE:
            return None
        return float(self.difference <= TOLERANCE)

    @property
    def dispensable(self) -> float | None:
        """1 if the joint sample passes without the agent too, 0 if not; `None` where it does not pass."""
        return float(self.passed_without) if self.passed else None


def credits(played: Iterable[Replayed], seed: int = 0) -> Iterator[Credit]:
    """The credit of every agent for every joint sample of groups that were played again.

    Equal counterfactuals of a state are executed once.

    Args:
        played: From `llm_decpomdp.benchmarks.cooperation.replay.replay`.
        seed: Decides which orders of more than six agents their Shapley values are averaged over.

    Raises:
        SandboxError: If programs cannot be run.
    """
    left = iter(played)
    while some := list(islice(left, AT_A_TIME)):
        games = [_Game(one, seed) for one in some]
        wanted = [game.missing() for game in games]
        found = step([g.one.env for g in games], [g.texts for g in games], wanted)
        for game, joint, outcomes in zip(games, wanted, found, strict=True):
            game.outcomes.update(zip(joint, outcomes, strict=True))
            yield from game.credits()


class _Game:
    """What could have been said in one state, and what it would have earned."""

    def __init__(self, one: Replayed, seed: int) -> None:
        self.one = one
        group = one.place.group
        self.agents = list(group.completions)
        self.sizes = [len(group.completions[agent]) for agent in self.agents]
        gold = {agent: _gold(one, agent) for agent in self.agents}
        self.has_gold = [bool(gold[agent]) for agent in self.agents]
        self.texts = {
            agent: (*group.completions[agent], Completion(NULL), *gold[agent])
            for agent in self.agents
        }
        self.first = [_first_of_equals(self.texts[agent]) for agent in self.agents]
        rng = stream(seed, "shapley", one.place.line, one.place.index)
        self.orders = orders(len(self.agents), rng)
        self.coalitions = coalitions(self.orders)
        self.joints = [self._canonical(joint) for joint in group.joint]
        self.outcomes: dict[Indices, Outcome] = dict(zip(self.joints, one.outcomes, strict=True))

    def missing(self) -> tuple[Indices, ...]:
        """The joint completions that have to be played, each once."""
        wanted: dict[Indices, None] = {}
        for joint, played in zip(self.joints, self.one.place.group.joint, strict=True):
            wanted |= dict.fromkeys(self._only(joint, some) for some in self.coalitions)
            for agent, index in enumerate(played):
                others = [*self._others(agent, index), *self._gold(agent)]
                wanted |= dict.fromkeys(self._swap(joint, agent, other) for other in others)
                wanted[self._swap(joint, agent, self.sizes[agent])] = None
        return tuple(indices for indices in wanted if indices not in self.outcomes)

    def credits(self) -> Iterator[Credit]:
        """Once everything was played."""
        for sample, (joint, played) in enumerate(
            zip(self.joints, self.one.place.group.joint, strict=True)
        ):
            values = shapley(self._worth_of(joint), self.orders)
            for agent, index in enumerate(played):
                yield self._credit(sample, joint, agent, index, values[agent])

    def _credit(self, sample: int, joint: Indices, agent: int, index: int, value: float) -> Credit:
        place, actual = self.one.place, self.outcomes[joint]
        without = self.outcomes[self._swap(joint, agent, self.sizes[agent])]
        gold = [self._reward(joint, agent, best) for best in self._gold(agent)]
        own = [self._reward(joint, agent, other) for other in self._others(agent, index)]
        return Credit(
            **_where(place),
            sample=sample + 1,
            agent=self.agents[agent],
            reward=actual.reward,
            silent=self.outcomes[self._only(joint, frozenset())].reward,
            difference=actual.reward - without.reward,
            shapley=value,
            gold=fmean(gold) - actual.reward if gold else None,
            own=actual.reward - fmean(own) if own else None,
            passed=passes(actual.info),
            passed_without=passes(without.info),
        )

    def _reward(self, joint: Indices, agent: int, index: int) -> float:
        return self.outcomes[self._swap(joint, agent, index)].reward

    def _worth_of(self, joint: Indices) -> Callable[[Coalition], float]:
        return lambda some: self.outcomes[self._only(joint, some)].reward

    def _others(self, agent: int, index: int) -> list[int]:
        """The agent's other samples in the group."""
        return [other for other in range(self.sizes[agent]) if other != index]

    def _gold(self, agent: int) -> list[int]:
        """Where the gold answer stands, if there is one."""
        return [self.sizes[agent] + 1] if self.has_gold[agent] else []

    def _only(self, joint: Indices, some: Coalition) -> Indices:
        """A joint completion of some agents, while the others are absent."""
        places = enumerate(joint)
        return self._canonical(i if agent in some else self.sizes[agent] for agent, i in places)

    def _swap(self, joint: Indices, agent: int, index: int) -> Indices:
        """A joint completion with another text of one agent."""
        return self._canonical((*joint[:agent], index, *joint[agent + 1 :]))

    def _canonical(self, joint: Iterable[int]) -> Indices:
        """The indices of the first texts that are equal to these."""
        return tuple(first[index] for first, index in zip(self.first, joint, strict=True))


def _gold(one: Replayed, agent: str) -> tuple[Completion, ...]:
    """The data's answer for an agent, if it has one."""
    try:
        return (Completion(answers(one.env).reference(agent)),)
    except LookupError:
        return ()


def _first_of_equals(completions: Sequence[Completion]) -> list[int]:
    first: dict[str, int] = {}
    return [first.setdefault(one.text, index) for index, one in enumerate(completions)]


def _where(place: Place) -> Mapping[str, Any]:
    row = place.row
    return {
        "line": place.line,
        "phase": row["phase"],
        "update": row["update"],
        "task": task_name(row),
        "turn": place.group.turn + 1,
        "group": place.index + 1,
    }
