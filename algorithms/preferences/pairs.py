"""Preference pairs from the joint samples of a group. Pure functions.

Letters: N agents, J joint samples of a group with returns R_1 .. R_J, of standard deviation s.

A pair (w, l) consists of two joint samples with R_w > R_l. With `pair_kind=joint` any two are paired: the part of
every agent in w is preferred, whichever agent made the difference. With `single` they differ in the completion of
one agent only, with equal completions of its partners. The difference of the returns is then caused by this agent:
exact credit, and no bad part of a good sample is preferred. Two completions are equal if their tokens are.

With an opponent, two teams are compared in a state that both were in, the first of a start. Their joint samples
are combined, and each pair has one side from each team. Returns are those of each team's own rollouts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from llm_decpomdp.algorithms.learning.advantages import ROUNDING, Returns, returns, visit_weights
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.preferences.options import PreferenceOptions
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout, Start
from llm_decpomdp.policy import Completion

MOST_STARTS = 10_000  # starts of a history: of more, those visited longest ago are forgotten


class OpponentSamples(NamedTuple):
    """A group with the joint samples of the team, then `num_others` of another team, and the returns (J,)."""

    group: Group
    returns: Returns
    num_others: int


def add_opponent_samples(
    rollout: Rollout, index: int, values: Returns, discount: float
) -> OpponentSamples:
    """Combine the joint samples of a group with those of the other team, if they can be compared.

    They can in the first state, if all agents had equal prompts and no prompt was skipped. `values` are the
    returns of the joint samples, (J,).
    """
    group, opponent = rollout.groups[index], rollout.opponent
    if index or opponent is None or not _comparable(group, root := opponent.groups[0]):
        return OpponentSamples(group, values, 0)
    sizes = [len(completions) for completions in group.completions.values()]
    further = (
        # The completions of the opponent follow the own ones.
        tuple(answer + size for answer, size in zip(sample, sizes, strict=True))
        for sample in root.joint
    )
    together = replace(
        group,
        completions={
            agent: (*completions, *root.completions[agent])
            for agent, completions in group.completions.items()
        },
        joint=(*group.joint, *further),
    )
    root_values = returns(opponent, discount)[0]
    return OpponentSamples(together, np.concatenate([values, root_values]), len(root.joint))


def _comparable(group: Group, other: Group) -> bool:
    answers = (*group.completions.values(), *other.completions.values())
    skipped = any(completion.skipped for completions in answers for completion in completions)
    return group.prompts == other.prompts and not skipped


class History:
    """Earlier joint samples of a team in the first states of its starts, with their returns.

    Args:
        age: Number of visits of a start to go back; `None` means the first visit.
    """

    def __init__(self, age: int | None) -> None:
        self.age = age
        self._visits: dict[Start, list[Rollout]] = {}  # the start visited last comes last

    def visit(self, start: Start) -> Rollout | None:
        """Return the visit of a start to compare with, if there is one."""
        visits = self._visits.get(start)
        return visits[0] if visits else None

    def add(self, rollouts: Sequence[Rollout], discount: float) -> None:
        """Add visits, in order."""
        for rollout in rollouts:
            visits = self._visits.pop(rollout.start, [])
            # Without an age the first visit is the one to compare with, and stays.
            if self.age is not None or not visits:
                visits = [*visits, _first_state(rollout, discount)][-(self.age or 1) :]
            self._visits[rollout.start] = visits
        # A dictionary keeps insertion order, and `pop` above moved visited starts to the end.
        for start in list(self._visits)[:-MOST_STARTS]:
            del self._visits[start]

    def state_dict(self) -> dict[str, Any]:
        """Return the visits as plain values."""
        return {
            "visits": [
                {**vars(start), "groups": [_row(visit.groups[0]) for visit in visits]}
                for start, visits in self._visits.items()
            ]
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the value of `state_dict`."""
        self._visits = {}
        for row in state["visits"]:
            start = Start(row["seed"], row["task_id"])
            self._visits[start] = [Rollout(start, (_group(of),)) for of in row["groups"]]


def _first_state(rollout: Rollout, discount: float) -> Rollout:
    """Return the first group, with the returns of the whole rollout as its rewards."""
    root = rollout.groups[0]
    completions = {
        # Without log-probabilities, which the loss of a pair does not read.
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


MAX_JOINT_SAMPLES = 2048  # joint samples of a group: they make two million pairs


class SamplePair(NamedTuple):
    """Two joint samples of a group, and their gap R_w - R_l above 0."""

    winner: int
    loser: int
    gap: float


@dataclass(frozen=True)
class PreferencePair:
    """A better and a worse joint sample for the same prompts."""

    start: Start
    prompts: Mapping[str, str]
    winner: Mapping[str, Completion]
    """The completion of each agent in the better one."""
    loser: Mapping[str, Completion]
    """The completion of each agent in the worse one."""
    gap: float
    """Difference of the returns, above 0."""
    weight: float = 1.0
    """Factor of the loss: `visits`, times the factor of the turn."""
    visits: float = 1.0
    """Share of the episodes that reach the group: weight of the pair in the mean of the losses."""
    opponent: str | None = None
    """The side of another team, `winner` or `loser`; `None` if both are of the team itself."""

    def differs(self, agent: str) -> bool:
        """Check whether the completions of an agent differ; otherwise its terms cancel."""
        # Stored pairs do not contain agents whose completions are equal.
        return agent in self.winner and content(self.winner[agent]) != content(self.loser[agent])


def content(completion: Completion) -> tuple[Any, ...]:
    """Return the tokens of a completion, or its text if it has none: the content that is compared."""
    return completion.tokens or (completion.text,)


def answers(group: Group) -> NDArray[np.int64]:
    """Return the completion of each agent in each joint sample, (J, N): equal numbers are equal completions."""
    joint = np.array(group.joint)
    columns = []
    for position, completions in enumerate(group.completions.values()):
        first: dict[tuple[Any, ...], int] = {}
        same = [first.setdefault(content(c), index) for index, c in enumerate(completions)]
        columns.append(np.array(same)[joint[:, position]])
    return np.stack(columns, axis=1)


def matches(
    said: NDArray[np.int64],
    joint_returns: Returns,
    learns: Sequence[bool],
    kind: str = "joint",
    min_gap: float = 0.0,
    num_others: int = 0,
) -> list[SamplePair]:
    """Return all pairs of a group, in the order of the samples.

    Args:
        said: (J, N), of `answers`.
        joint_returns: (J,).
        learns: Whether each agent learns, (N,). A pair differs in at least one agent that learns.
        kind: `joint` or `single`.
        min_gap: Minimum R_w - R_l, in units of s. Rounding errors count as 0.
        num_others: Number of the last joint samples, which another team has played. If above 0, each pair has one
            side among them.

    Raises:
        ValueError: If there are more than `MAX_JOINT_SAMPLES`.
    """
    if len(said) > MAX_JOINT_SAMPLES:
        raise ValueError(
            f"a group has {len(said):,} joint samples, and pairs are made of at most {MAX_JOINT_SAMPLES:,}: "
            "lower group_size, or set joint_mode=common"
        )
    different, learning = (
        # Begins with zeros, as there is no column where no agent learns.
        sum((column[:, None] != column for column in columns.T), np.zeros((len(said),) * 2, int))
        for columns in (said, said[:, np.array(learns)])
    )
    gaps = joint_returns[:, None] - joint_returns  # (J, J), of winner and loser
    # Equal returns that were summed in another order differ by rounding errors, which are no preference.
    noise = ROUNDING * np.abs(joint_returns).max()
    possible = (learning > 0) & (gaps > noise) & (gaps >= min_gap * joint_returns.std() - noise)
    if kind == "single":
        possible &= different == 1
    if num_others:
        of_other = np.arange(len(said)) >= len(said) - num_others
        possible &= of_other[:, None] != of_other
    winners, losers = np.nonzero(possible)
    return [
        SamplePair(int(winner), int(loser), float(gaps[winner, loser]))
        for winner, loser in zip(winners, losers, strict=True)
    ]


def disjoint(
    ordered: Iterable[SamplePair],
    group: Group,
    said: NDArray[np.int64],
    learns: Sequence[bool],
    limit: int,
) -> list[SamplePair]:
    """Return the first pairs of an order in which no completion enters the loss twice.

    A completion enters the loss if its agent learns and differs between the two samples. It is then made more, or
    less, likely at most once in a pass over the pairs. `said` are the `answers`, (J, N), and `limit` is the most
    pairs.
    """
    result: list[SamplePair] = []
    completions: set[tuple[int, int]] = set()
    for match in ordered:
        if len(result) == limit:
            break
        agents = np.flatnonzero((said[match.winner] != said[match.loser]) & learns)
        parts = {(int(i), group.joint[sample][i]) for i in agents for sample in match[:2]}
        if not parts & completions:
            completions |= parts
            result.append(match)
    return result


def rollout_pairs(
    rollout: Rollout,
    agents: Collection[str],
    pair_options: PreferenceOptions,
    options: LearnerOptions,
    rng: np.random.Generator,
) -> list[list[PreferencePair]]:
    """Return the pairs of each group of a rollout, by the returns of its joint samples.

    In a chain a return is the group's own reward; in a tree it includes later rewards (`advantages.returns`). Each
    group makes at most `pairs_per_group`, the rollout at most `pairs_per_start`, in the same order.

    Args:
        rollout: The rollout, with `opponent` if the first group is compared with another team's.
        agents: The agents that learn.
        pair_options: How to make pairs.
        options: The discount, and the weights of turns.
        rng: Draws the order of `pair_selection=random`, and that of equal gaps.

    Raises:
        FloatingPointError: If a return isn't finite; names the start.
        ValueError: If there are more than `MAX_JOINT_SAMPLES`.
    """
    selection: list[tuple[int, SamplePair]] = []
    versus = [
        add_opponent_samples(rollout, index, values, options.discount)
        for index, values in enumerate(returns(rollout, options.discount))
    ]
    for index, (group, values, num_others) in enumerate(versus):
        if not math.isfinite(float(values.sum())):
            raise FloatingPointError(
                f"a return isn't finite for {rollout.start}: {values.tolist()}"
            )
        texts, learns = answers(group), [agent in agents for agent in group.completions]
        kind, gap = pair_options.pair_kind, pair_options.pair_min_gap
        candidates = matches(texts, values, learns, kind, gap, num_others)
        ordered = _order(candidates, pair_options, rng)
        of_group = disjoint(ordered, group, texts, learns, pair_options.pairs_per_group)
        selection += [(index, match) for match in of_group]
    pairs: list[list[PreferencePair]] = [[] for _ in rollout.groups]
    shares = visit_weights(rollout)
    for index, match in _limit_per_start(selection, pair_options, rng):
        group = versus[index].group
        factor = options.turn_weight(group.turn, group.stopped_early)
        pair = _pair(rollout.start, versus[index], match, shares[index])
        pairs[index].append(replace(pair, weight=shares[index] * factor))
    return pairs


def _order(
    candidates: Sequence[SamplePair], options: PreferenceOptions, rng: np.random.Generator
) -> list[SamplePair]:
    # Shuffled first, because sorting is stable: equal gaps stay in random order. In the order of the samples, the
    # first pairs of a crossed group would share the completion of its first agent.
    order = [candidates[k] for k in rng.permutation(len(candidates))]
    if options.pair_selection == "largest_gap":
        order.sort(key=lambda match: -match.gap)
    return order


def _limit_per_start(
    chosen: list[tuple[int, SamplePair]], options: PreferenceOptions, rng: np.random.Generator
) -> list[tuple[int, SamplePair]]:
    """Return the first `pairs_per_start` of the pairs of all groups."""
    # Always drawn, so that the random stream does not depend on the limit.
    order = rng.permutation(len(chosen)).tolist()
    if options.pair_selection == "largest_gap":
        order.sort(key=lambda k: -chosen[k][1].gap)
    return [chosen[k] for k in sorted(order[: options.pairs_per_start])]


def _pair(
    start: Start, versus: OpponentSamples, match: SamplePair, visits: float
) -> PreferencePair:
    group = versus.group
    winner, loser = (
        {
            agent: completions[index]
            for (agent, completions), index in zip(
                group.completions.items(), group.joint[sample], strict=True
            )
        }
        for sample in match[:2]
    )
    opponent = None
    if versus.num_others:
        num_own = len(group.joint) - versus.num_others
        opponent = "winner" if match.winner >= num_own else "loser"
    return PreferencePair(
        start, group.prompts, winner, loser, match.gap, visits=visits, opponent=opponent
    )
