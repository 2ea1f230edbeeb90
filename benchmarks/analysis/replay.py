"""Stored episodes played again: the same starts, the same completions, nothing sampled.

Works with every row of `episodes.jsonl`: chains and trees of runs, and evaluations. Each joint sample of a group
is stepped once, in a branch of the state that the group's parents lead to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from llm_decpomdp.algorithms.rollouts.environment import StepOutcome, TextEnv, reset_branch, step
from llm_decpomdp.algorithms.rollouts.rollout import Group, Parent, Start
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.play import rollout_of
from llm_decpomdp.benchmarks.runs.results import Row, task_name

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

    def position(self) -> dict[str, Any]:
        """Return line, task, turn and group, counted from 1."""
        task, turn = task_name(self.row), self.group.turn + 1
        return {"line": self.line, "task": task, "turn": turn, "group": self.index + 1}


@dataclass(frozen=True)
class Replayed:
    """A group that was played again."""

    place: Place
    env: TextEnv
    """The environment in the state that the group was sampled in."""
    prompts: Mapping[str, str]
    """Observations of the agents in that state, as they are now."""
    outcomes: tuple[StepOutcome, ...]
    """Outcomes of the joint samples."""


@dataclass(frozen=True)
class Unreached:
    """A group that cannot be played again, since its state is not reached any more."""

    place: Place
    reason: str


State = tuple[TextEnv, Mapping[str, str]] | str
"""An environment and its observations, or the reason why there is none."""

Step = tuple[int, Parent]
"""A line, and the joint sample of a group in it."""


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
        starts: dict[int, State] = {}
        places: list[Place] = []
        for line, row in batch:
            rollout = rollout_of(row)
            starts[line] = _start(line, rollout.start, envs[row["phase"]])
            places += [Place(line, row, index, group) for index, group in enumerate(rollout.groups)]
        yield from _play(places, starts)


def _start(line: int, start: Start, env: TextEnv) -> State:
    if start == Start():
        raise ConfigError(f"line {line}: nothing says how the episode began, neither task nor seed")
    try:
        return reset_branch(env, start)
    except KeyError as error:
        return str(error.args[0])


def _play(places: Sequence[Place], starts: Mapping[int, State]) -> Iterator[Replayed | Unreached]:
    """Play the groups of some rows turn by turn, from the starts of their lines."""
    parents = {(place.line, place.group.parent) for place in places}
    outcomes: dict[Step, StepOutcome] = {}  # those that other groups come from
    for turn in range(1 + max(place.group.turn for place in places)):
        states: list[tuple[Place, TextEnv, Mapping[str, str]]] = []
        for place in (place for place in places if place.group.turn == turn):
            state = _state(place, starts, outcomes)
            if isinstance(state, str):
                yield Unreached(place, state)
            else:
                states.append((place, *state))
        groups = [place.group for place, _, _ in states]
        results = step(
            [env for _, env, _ in states],
            [group.completions for group in groups],
            [group.joint for group in groups],
        )
        for (place, env, prompts), result in zip(states, results, strict=True):
            for sample, outcome in enumerate(result):
                if (key := (place.line, Parent(place.index, sample))) in parents:
                    outcomes[key] = outcome
            yield Replayed(place, env, prompts, tuple(result))


def _state(
    place: Place, starts: Mapping[int, State], outcomes: Mapping[Step, StepOutcome]
) -> State:
    """Return the state that a group was sampled in."""
    if place.group.parent is None:
        return starts[place.line]
    outcome = outcomes.get((place.line, place.group.parent))
    if outcome is None:
        return "the group before it cannot be played"
    if not outcome.prompts:
        return "the episode is over by now"
    return outcome.env, outcome.prompts
