"""Comparators of iterated MADPO: joint samples of a team beside those of another one, or of itself before.

Two teams are compared in a state that both were in, the first of a start: their joint samples there are put
together, and one side of each pair is of either team (`pairs.py`). Returns are those of each team's own plan. The
better side teaches and the worse one is unlearned, whoever has said it: pairs need not come from the policy that
is updated (`madpo.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from llm_decpomdp.algorithms.learning.advantages import Returns, returns
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout, Start
from llm_decpomdp.policy import Completion

MOST_STARTS = 10_000
"""Most starts of a history: of more, those that were visited longest ago are forgotten."""


class OpponentSamples(NamedTuple):
    """The joint samples of a group, those of another team after the team's own."""

    group: Group
    returns: Returns
    """(J,)."""
    num_others: int
    """Number of the last joint samples that the other team has played."""


def add_opponent_samples(
    rollout: Rollout, index: int, values: Returns, discount: float
) -> OpponentSamples:
    """Put the joint samples of a group together with those of the other team, if they can be compared.

    They can in the first state, if all agents were asked the same and said something: a prompt that is skipped has
    no answer to learn from.

    Args:
        rollout: With what another team has played from its start, or without.
        index: Position of the group.
        values: Returns of its joint samples, (J,).
        discount: Weight of a reward a turn later.
    """
    group, comparator = rollout.groups[index], rollout.comparator
    if index or comparator is None or not _comparable(group, root := comparator.groups[0]):
        return OpponentSamples(group, values, 0)
    sizes = [len(completions) for completions in group.completions.values()]
    further = (
        tuple(answer + size for answer, size in zip(sample, sizes, strict=True))
        for sample in root.joint
    )
    together = replace(
        group,
        completions={
            agent: (*own, *root.completions[agent]) for agent, own in group.completions.items()
        },
        joint=(*group.joint, *further),
    )
    root_values = returns(comparator, discount)[0]
    return OpponentSamples(together, np.concatenate([values, root_values]), len(root.joint))


def _comparable(group: Group, other: Group) -> bool:
    answers = (*group.completions.values(), *other.completions.values())
    skipped = any(completion.skipped for completions in answers for completion in completions)
    return group.prompts == other.prompts and not skipped


class History:
    """What a team has said in the first states of its starts before, with the returns that it had.

    Args:
        age: Number of visits of a start back, and that are kept of it; `None` keeps the first.
    """

    def __init__(self, age: int | None) -> None:
        self.age = age
        self._visits: dict[Start, list[Rollout]] = {}  # the start visited last comes last

    def visit(self, start: Start) -> Rollout | None:
        """Return the visit of a start to compare with, if there was any."""
        visits = self._visits.get(start)
        return visits[0] if visits else None

    def add(self, rollouts: Sequence[Rollout], discount: float) -> None:
        """Add visits, in their order."""
        for rollout in rollouts:
            visits = self._visits.pop(rollout.start, [])
            if self.age is not None or not visits:
                visits = [*visits, _first_state(rollout, discount)][-(self.age or 1) :]
            self._visits[rollout.start] = visits
        # A dictionary keeps insertion order, and `pop` above moved visited starts to the end.
        for start in list(self._visits)[:-MOST_STARTS]:
            del self._visits[start]

    def state_dict(self) -> dict[str, Any]:
        """Return the visits, as containers of texts and numbers."""
        return {
            "visits": [
                {**vars(start), "groups": [_row(visit.groups[0]) for visit in visits]}
                for start, visits in self._visits.items()
            ]
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value."""
        self._visits = {}
        for row in state["visits"]:
            start = Start(row["seed"], row["task_id"])
            self._visits[start] = [Rollout(start, (_group(of),)) for of in row["groups"]]


def _first_state(rollout: Rollout, discount: float) -> Rollout:
    """Return the first group alone, worth what its joint samples were in the whole rollout."""
    root = rollout.groups[0]
    completions = {
        agent: tuple(Completion(c.text, c.tokens, (), c.finish_reason) for c in of)
        for agent, of in root.completions.items()
    }
    rewards = tuple(returns(rollout, discount)[0].tolist())
    return Rollout(
        rollout.start, (Group(0, None, root.prompts, completions, root.joint, rewards, ()),)
    )


def _row(group: Group) -> dict[str, Any]:
    return {
        "prompts": dict(group.prompts),
        "completions": {
            agent: [(c.text, c.tokens, c.finish_reason) for c in of]
            for agent, of in group.completions.items()
        },
        "joint": group.joint,
        "rewards": group.rewards,
    }


def _group(row: Mapping[str, Any]) -> Group:
    completions = {
        agent: tuple(Completion(text, tokens, (), reason) for text, tokens, reason in of)
        for agent, of in row["completions"].items()
    }
    return Group(0, None, row["prompts"], completions, row["joint"], row["rewards"], ())
