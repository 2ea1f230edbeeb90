"""Stored episodes played again: the same starts, the same completions, nothing sampled.

Works with every row of `episodes.jsonl`: chains and trees of runs, and evaluations. Each joint sample of a group
is stepped once, in a branch of the state that the group's parents lead to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from llm_decpomdp.algorithms.rollouts.environment import Outcome, TextEnv, begin, step
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout, Start
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.play import rollout_of
from llm_decpomdp.benchmarks.runs.results import Row

AT_A_TIME = 32
"""Rows that are played in step."""


@dataclass(frozen=True)
class Place:
    """A stored group and its position."""

    line: int
    """Line of `episodes.jsonl`, counted from 1."""
    row: Row
    index: int
    """Position of the group in its row, counted from 0."""
    group: Group


@dataclass(frozen=True)
class Replayed:
    """A group that was played again."""

    place: Place
    env: TextEnv
    """The environment in the state that the group was sampled in."""
    prompts: Mapping[str, str]
    """Observations of the agents in that state, as they are now."""
    outcomes: tuple[Outcome, ...]
    """Outcomes of the joint samples."""


@dataclass(frozen=True)
class Unreached:
    """A group that cannot be played again, since its state is not reached any more."""

    place: Place
    reason: str


State = tuple[TextEnv, Mapping[str, str]] | str
"""An environment and its observations, or the reason why there is none."""


def replay(
    envs: Mapping[str, TextEnv], rows: Iterable[tuple[int, Row]]
) -> Iterator[Replayed | Unreached]:
    """Play rows again in batches, turn by turn.

    Args:
        envs: The environment of each phase; they are reset, and played in branches.
        rows: Rows of `episodes.jsonl`, each with its line.

    Raises:
        ConfigError: If nothing says how an episode began.
        SandboxError: If programs cannot be run.
    """
    pending = iter(rows)
    while batch := list(islice(pending, AT_A_TIME)):
        games = [_Game(line, row, rollout_of(row), envs) for line, row in batch]
        for turn in range(max(len(game.rollout.turns) for game in games)):
            yield from _play(turn, games)


class _Game:
    """A row that is played again."""

    def __init__(self, line: int, row: Row, rollout: Rollout, envs: Mapping[str, TextEnv]) -> None:
        self.line, self.row, self.rollout = line, row, rollout
        self.start = _start(line, rollout.start, envs[row["phase"]])
        self.parents = {group.parent for group in rollout.groups if group.parent is not None}
        self.outcomes: dict[tuple[int, int], Outcome] = {}  # those of the parents

    def at(self, turn: int) -> list[tuple[Place, State]]:
        """Return the groups of a turn, each with its state."""
        return [
            (Place(self.line, self.row, index, group), self._state(group))
            for index, group in enumerate(self.rollout.groups)
            if group.turn == turn
        ]

    def keep(self, index: int, outcomes: Sequence[Outcome]) -> None:
        """Keep the outcomes that other groups come from."""
        for sample, outcome in enumerate(outcomes):
            if (index, sample) in self.parents:
                self.outcomes[index, sample] = outcome

    def _state(self, group: Group) -> State:
        if group.parent is None:
            return self.start
        outcome = self.outcomes.get(group.parent)
        if outcome is None:
            return "the group before it cannot be played"
        if not outcome.prompts:
            return "the episode is over by now"
        return outcome.env, outcome.prompts


def _start(line: int, start: Start, env: TextEnv) -> State:
    if start == Start():
        raise ConfigError(f"line {line}: nothing says how the episode began, neither task nor seed")
    try:
        return begin(env, start)
    except KeyError as error:
        return str(error.args[0])


def _play(turn: int, games: Sequence[_Game]) -> Iterator[Replayed | Unreached]:
    states: list[tuple[_Game, Place, TextEnv, Mapping[str, str]]] = []
    for game in games:
        for place, state in game.at(turn):
            if isinstance(state, str):
                yield Unreached(place, state)
            else:
                states.append((game, place, *state))
    groups = [place.group for _, place, _, _ in states]
    outcomes_of = step(
        [env for _, _, env, _ in states],
        [group.completions for group in groups],
        [group.joint for group in groups],
    )
    for (game, place, env, prompts), outcomes in zip(states, outcomes_of, strict=True):
        game.keep(place.index, outcomes)
        yield Replayed(place, env, prompts, tuple(outcomes))
