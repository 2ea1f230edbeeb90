"""Stored episodes graded again: after a change of rules, or on another machine, they must agree or be named."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from llm_decpomdp.algorithms.rollouts.rollout import Outcome
from llm_decpomdp.benchmarks.config.errors import ConfigError, writing
from llm_decpomdp.benchmarks.cooperation.replay import Place, Replayed, Unreached, replay
from llm_decpomdp.benchmarks.cooperation.stored import Stored, stored
from llm_decpomdp.benchmarks.runs.failures import as_run_errors
from llm_decpomdp.benchmarks.runs.results import Row, task_name
from llm_decpomdp.branching import record
from llm_decpomdp.utils.storage import write_atomically

TOLERANCE = 1e-9
"""Numbers that differ by less agree: other machines may round the last digit otherwise."""

SHOWN = 20
"""Differences that are told; a file has them all."""

WIDTH = 120
"""Characters of a value that are told."""

BEFORE = 20
"""Characters that are told before the place where two texts part."""


@dataclass(frozen=True)
class Difference:
    """Something that is not as it was."""

    line: int
    """Of `episodes.jsonl`; this and all others are counted from 1."""
    task: str
    turn: int
    group: int
    """Position in the row."""
    sample: int | None
    """The joint sample; `None` where it is of the whole group."""
    what: str
    was: Any
    now: Any

    def __str__(self) -> str:
        sample = "" if self.sample is None else f", sample {self.sample}"
        where = f"line {self.line} ({self.task}), turn {self.turn}, group {self.group}{sample}"
        was, now = _from_the_difference(self.was, self.now)
        return f"{where}: {self.what} was {_short(was)}, is {_short(now)}"


@dataclass(frozen=True)
class Rescored:
    """What a folder's episodes are by now."""

    episodes: int
    samples: int
    """Joint samples that were graded again."""
    data: tuple[str, ...]
    """What is known to be other data than before."""
    differences: tuple[Difference, ...]

    def lines(self) -> list[str]:
        """The result in words: first what is other data, then what was checked, then what differs."""
        found = [f"{text}; what follows may come from that" for text in self.data]
        found.append(f"{self.episodes} episodes, {self.samples} joint samples graded again")
        if not self.differences:
            return [*found, "all agree: rewards, components, numbers, tests and prompts"]
        found.append(f"{len(self.differences)} differences")
        found += map(str, self.differences[:SHOWN])
        more = len(self.differences) - SHOWN
        return [*found, f"... and {more} more: --output FILE writes all"] if more > 0 else found


def rescore(folder: Path, output: Path | None = None) -> Rescored:
    """Grade the episodes of a run or an evaluation again.

    Args:
        folder: Its folder; nothing is changed in it.
        output: A file of JSON Lines, one for each difference.

    Raises:
        ConfigError: If it holds no episodes, or nothing says where they were played.
        RunError: If the data cannot be loaded, programs cannot be run, or the output cannot be written.
    """
    found = stored(folder)
    if next(found.rows(), None) is None:
        raise ConfigError(f"{folder}: episodes.jsonl is empty, so there is nothing to grade")
    with as_run_errors():
        result = compare(found, replay(found.envs, found.rows()))
    if output is not None:
        rows = (json.dumps(asdict(difference)) + "\n" for difference in result.differences)
        with writing(output):
            write_atomically(output, "".join(rows))
    return result


def compare(found: Stored, played: Iterable[Replayed | Unreached]) -> Rescored:
    """What was played again, held against what is stored."""
    lines, samples = set(), 0
    differences: list[Difference] = []
    for one in played:
        if isinstance(one, Replayed):
            lines.add(one.place.line)
            samples += len(one.outcomes)
        differences += differences_of(one, found)
    differences.sort(key=lambda d: (d.line, d.group, d.sample or 0))
    return Rescored(len(lines), samples, tuple(found.changes_of_data()), tuple(differences))


def differences_of(one: Replayed | Unreached, found: Stored) -> list[Difference]:
    """The differences of a group: in prompts, rewards, infos, and tests where the row has them."""
    place = one.place
    if isinstance(one, Unreached):
        return [_difference(place, None, "the state", "there", one.why)]
    changes: list[Difference] = []
    if place.group.turn == 0 or found.known_prompts:
        for agent, now in one.prompts.items():
            was = place.group.prompts.get(agent)
            if was != now and not (found.talking and was and was.startswith(f"{now}\n\n")):
                changes.append(_difference(place, None, f"the prompt of {agent}", was, now))
    for sample, outcome in enumerate(one.outcomes):
        for what, was, now in _of_sample(place, sample, outcome, found):
            changes.append(_difference(place, sample, what, was, now))
    return changes


def _of_sample(
    place: Place, sample: int, outcome: Outcome, found: Stored
) -> Iterator[tuple[str, Any, Any]]:
    was, now = place.group.infos[sample], outcome.info
    reward: tuple[float | None, float | None] = (place.group.rewards[sample], outcome.reward)
    keys = [*was, *(key for key in now if key not in was)]
    if not found.known_prompts:
        keys = [key for key in keys if key in was and key in now]  # the mode has others
    numbers = {"reward": reward, **{key: (was.get(key), now.get(key)) for key in keys}}
    for what, (before, after) in numbers.items():
        if before is None or after is None or not _close(before, after):
            yield what, before, after
    final: Row = place.row["final"] or {}
    if place.group.chosen == sample and final and (again := record(outcome.env)) is not None:
        yield from _of_tests(*(one["turns"][place.group.turn]["verdict"] for one in (final, again)))


def _of_tests(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    before, after = (
        {f"test {n}": test["status"] for n, test in enumerate(details.get("tests", ()), 1)}
        | {"loading the program": (details.get("error") or {}).get("status")}
        for details in (was["details"], now["details"])
    )
    for what in dict.fromkeys([*before, *after]):
        if before.get(what) != after.get(what):
            yield what, before.get(what), after.get(what)


def _close(was: float, now: float) -> bool:
    return math.isclose(was, now, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _difference(place: Place, sample: int | None, what: str, was: Any, now: Any) -> Difference:
    number = None if sample is None else sample + 1
    task, turn = task_name(place.row), place.group.turn + 1
    return Difference(place.line, task, turn, place.index + 1, number, what, was, now)


def _from_the_difference(was: Any, now: Any) -> tuple[Any, Any]:
    """Two texts from shortly before the place where they part; other values as they are."""
    if not (isinstance(was, str) and isinstance(now, str)):
        return was, now
    equal = [one == other for one, other in zip(was, now, strict=False)]
    begin = max(0, [*equal, False].index(False) - BEFORE)
    return was[begin:], now[begin:]


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= WIDTH else f"{text[:WIDTH]}..."
