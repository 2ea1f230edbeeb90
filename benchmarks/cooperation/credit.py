"""Credit of each agent for the team's reward: counterfactuals of stored episodes, executed and not estimated.

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

from llm_decpomdp.algorithms.rollouts.environment import Outcome, step
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
        groups: From `llm_decpomdp.benchmarks.cooperation.replay.replay`.
        seed: Decides which orders of more than six agents their Shapley values are averaged over.

    Raises:
        SandboxError: If programs cannot be run.
    """
    pending = iter(groups)
    while batch := list(islice(pending, AT_A_TIME)):
        games = [_Game(group, seed) for group in batch]
        joints = [game.missing() for game in games]
        results = step([g.replayed.env for g in games], [g.texts for g in games], joints)
        for game, joint, outcomes in zip(games, joints, results, strict=True):
            game.outcomes.update(zip(joint, outcomes, strict=True))
            yield from game.credits()


class _Game:
    """The texts that each agent may say in one state, and the outcomes of their combinations."""

    def __init__(self, replayed: Replayed, seed: int) -> None:
        self.replayed = replayed
        group = replayed.place.group
        self.agents = list(group.completions)
        self.sizes = [len(group.completions[agent]) for agent in self.agents]
        gold = {agent: _gold(replayed, agent) for agent in self.agents}
        self.has_gold = [bool(gold[agent]) for agent in self.agents]
        self.texts = {
            agent: (*group.completions[agent], Completion(NULL), *gold[agent])
            for agent in self.agents
        }
        self.first = [_first_of_equals(self.texts[agent]) for agent in self.agents]
        rng = stream(seed, "shapley", replayed.place.line, replayed.place.index)
        self.orders = orders(len(self.agents), rng)
        self.coalitions = coalitions(self.orders)
        self.joints = [self._canonical(joint) for joint in group.joint]
        self.outcomes: dict[Indices, Outcome] = dict(
            zip(self.joints, replayed.outcomes, strict=True)
        )

    def missing(self) -> tuple[Indices, ...]:
        """Return the joint completions that have to be played, each once."""
        joints: dict[Indices, None] = {}
        for joint, indices in zip(self.joints, self.replayed.place.group.joint, strict=True):
            joints |= dict.fromkeys(self._only(joint, coalition) for coalition in self.coalitions)
            for agent, index in enumerate(indices):
                alternatives = [*self._others(agent, index), *self._gold(agent)]
                joints |= {self._swap(joint, agent, choice): None for choice in alternatives}
                joints[self._swap(joint, agent, self.sizes[agent])] = None
        return tuple(indices for indices in joints if indices not in self.outcomes)

    def credits(self) -> Iterator[Credit]:
        """Yield the credits of a game whose `missing` were played."""
        for sample, (joint, indices) in enumerate(
            zip(self.joints, self.replayed.place.group.joint, strict=True)
        ):
            values = shapley(self._worth_of(joint), self.orders)
            for agent, index in enumerate(indices):
                yield self._credit(sample, joint, agent, index, values[agent])

    def _credit(self, sample: int, joint: Indices, agent: int, index: int, value: float) -> Credit:
        place, actual = self.replayed.place, self.outcomes[joint]
        without = self.outcomes[self._swap(joint, agent, self.sizes[agent])]
        gold = [self._reward(joint, agent, best) for best in self._gold(agent)]
        changes = [self._reward(joint, agent, choice) for choice in self._others(agent, index)]
        return Credit(
            **_where(place),
            sample=sample + 1,
            agent=self.agents[agent],
            reward=actual.reward,
            silent=self.outcomes[self._only(joint, frozenset())].reward,
            difference=actual.reward - without.reward,
            shapley=value,
            gold=fmean(gold) - actual.reward if gold else None,
            own=actual.reward - fmean(changes) if changes else None,
            passed=passes(actual.info),
            passed_without=passes(without.info),
        )

    def _reward(self, joint: Indices, agent: int, index: int) -> float:
        return self.outcomes[self._swap(joint, agent, index)].reward

    def _worth_of(self, joint: Indices) -> Callable[[Coalition], float]:
        return lambda coalition: self.outcomes[self._only(joint, coalition)].reward

    def _others(self, agent: int, index: int) -> list[int]:
        """Return the indices of the agent's other samples in the group."""
        return [number for number in range(self.sizes[agent]) if number != index]

    def _gold(self, agent: int) -> list[int]:
        """Return the index of the gold answer, if there is one."""
        return [self.sizes[agent] + 1] if self.has_gold[agent] else []

    def _only(self, joint: Indices, coalition: Coalition) -> Indices:
        """Return a joint completion of some agents, while the others are absent."""
        places = enumerate(joint)
        return self._canonical(
            i if agent in coalition else self.sizes[agent] for agent, i in places
        )

    def _swap(self, joint: Indices, agent: int, index: int) -> Indices:
        """Return a joint completion with another text of one agent."""
        return self._canonical((*joint[:agent], index, *joint[agent + 1 :]))

    def _canonical(self, joint: Iterable[int]) -> Indices:
        """Return the indices of the first texts that are equal to these."""
        return tuple(first[index] for first, index in zip(self.first, joint, strict=True))


def _gold(replayed: Replayed, agent: str) -> tuple[Completion, ...]:
    """Return the data's answer for an agent, if it has one."""
    try:
        return (Completion(answers(replayed.env).reference(agent)),)
    except LookupError:
        return ()


def _first_of_equals(completions: Sequence[Completion]) -> list[int]:
    first: dict[str, int] = {}
    return [
        first.setdefault(completion.text, index) for index, completion in enumerate(completions)
    ]


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
