"""Stored episodes graded again: after a change of rules, or on another machine, they must agree or be named."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from llm_decpomdp.algorithms.rollouts.environment import StepOutcome
from llm_decpomdp.benchmarks.analysis.replay import (
    Replayed,
    StoredEpisodes,
    StoredGroup,
    Unreached,
    open_episodes,
    replay,
)
from llm_decpomdp.benchmarks.config.errors import ConfigError, writing
from llm_decpomdp.benchmarks.runs.failures import raise_run_errors
from llm_decpomdp.benchmarks.runs.results import Row
from llm_decpomdp.branching import record
from llm_decpomdp.utils.storage import incomplete_line, write_atomically

TOLERANCE = 1e-9
"""Numbers that differ by less agree: other machines may round the last digit otherwise."""

SHOWN = 20
"""Number of differences that are printed; a file has them all."""

WIDTH = 120
"""Characters of a value that are printed."""

BEFORE = 20
"""Characters that are printed before the place where two texts part."""


@dataclass(frozen=True)
class Difference:
    """A difference between what is stored and what was played again."""

    line: int
    """Line of `episodes.jsonl`; this and all others are counted from 1."""
    task: str
    turn: int
    group: int
    """Position in the row."""
    sample: int | None
    """Joint sample; `None` for a difference of the whole group."""
    what: str
    was: Any
    now: Any

    def __str__(self) -> str:
        sample = "" if self.sample is None else f", sample {self.sample}"
        where = f"line {self.line} ({self.task}), turn {self.turn}, group {self.group}{sample}"
        was, now = _from_the_difference(self.was, self.now)
        return f"{where}: {self.what} was {_short(was)}, is {_short(now)}"


@dataclass(frozen=True)
class Regrading:
    """The result of grading a folder's episodes again."""

    episodes: int
    samples: int
    """Number of joint samples that were graded again."""
    data: tuple[str, ...]
    """Known changes of the data since the episodes were played, in words."""
    differences: tuple[Difference, ...]
    incomplete: int | None = None
    """The last line, if it is incomplete and so was not graded."""

    @property
    def agrees(self) -> bool:
        """True if all episodes were graded again and none differs."""
        return not self.differences and self.incomplete is None

    def lines(self) -> list[str]:
        """Return the result in words: changes of the data, numbers of checks, differences."""
        lines = [f"{text}; what follows may come from that" for text in self.data]
        lines.append(f"{self.episodes} episodes, {self.samples} joint samples graded again")
        if self.incomplete is not None:
            lines.append(f"line {self.incomplete} is incomplete and was not graded")
        if not self.differences:
            whole = "all" if self.agrees else "all others"
            return [*lines, f"{whole} agree: rewards, components, numbers, tests and prompts"]
        lines.append(f"{len(self.differences)} differences")
        lines += map(str, self.differences[:SHOWN])
        more = len(self.differences) - SHOWN
        return [*lines, f"... and {more} more: --output FILE writes all"] if more > 0 else lines


def regrade(folder: Path, output: Path | None = None) -> Regrading:
    """Grade the episodes of a run or an evaluation again.

    Args:
        folder: Its folder; nothing is changed in it.
        output: A file of JSON Lines, one for each difference.

    Raises:
        ConfigError: If it holds no episodes, or nothing says where they were played.
        RunError: If the data cannot be loaded, programs cannot be run, or the output cannot be written.
    """
    episodes = open_episodes(folder)
    if next(episodes.rows(), None) is None:
        raise ConfigError(f"{folder}: episodes.jsonl is empty, so there is nothing to grade")
    with raise_run_errors():
        result = compare(episodes, replay(episodes.envs, episodes.rows()))
    result = replace(result, incomplete=incomplete_line(folder / "episodes.jsonl"))
    if output is not None:
        rows = (json.dumps(asdict(difference)) + "\n" for difference in result.differences)
        with writing(output):
            write_atomically(output, "".join(rows))
    return result


def compare(episodes: StoredEpisodes, groups: Iterable[Replayed | Unreached]) -> Regrading:
    """Compare groups that were played again with what is stored."""
    lines, samples = set(), 0
    differences: list[Difference] = []
    for group in groups:
        if isinstance(group, Replayed):
            lines.add(group.place.line)
            samples += len(group.outcomes)
        differences += find_differences(group, episodes)
    # Groups are played turn by turn, and a reader goes line by line.
    differences.sort(key=lambda d: (d.line, d.group, d.sample or 0))
    return Regrading(len(lines), samples, tuple(episodes.changes_of_data()), tuple(differences))


def find_differences(group: Replayed | Unreached, episodes: StoredEpisodes) -> list[Difference]:
    """Return the differences of a group: in prompts, rewards, infos, and tests where the row has them."""
    place = group.place
    if isinstance(group, Unreached):
        return [_difference(place, None, "the state", "there", group.reason)]
    changes: list[Difference] = []
    # An expert outside is not asked again, so that later prompts are unknown.
    if place.group.turn == 0 or episodes.known_prompts:
        for agent, now in group.prompts.items():
            was = place.group.prompts.get(agent)
            if was != now and not (episodes.talking and was and was.startswith(f"{now}\n\n")):
                changes.append(_difference(place, None, f"the prompt of {agent}", was, now))
    for sample, outcome in enumerate(group.outcomes):
        for subject, was, now in _sample_differences(place, sample, outcome, episodes):
            changes.append(_difference(place, sample, subject, was, now))
    return changes


def _sample_differences(
    place: StoredGroup, sample: int, outcome: StepOutcome, episodes: StoredEpisodes
) -> Iterator[tuple[str, Any, Any]]:
    was, now = place.group.infos[sample], outcome.info
    reward: tuple[float | None, float | None] = (place.group.rewards[sample], outcome.reward)
    keys = [*was, *(key for key in now if key not in was)]
    if not episodes.known_prompts:
        keys = [key for key in keys if key in was and key in now]  # the mode has others
    numbers = {"reward": reward, **{key: (was.get(key), now.get(key)) for key in keys}}
    for subject, (before, after) in numbers.items():
        if before is None or after is None or not _close(before, after):
            yield subject, before, after
    final: Row = place.row["final"] or {}
    if place.group.chosen == sample and final and (again := record(outcome.env)) is not None:
        if newest := len(again["turns"]):  # none before a first answer, where messages come first
            turns = (row["turns"][newest - 1] for row in (final, again))
            yield from _test_differences(*(turn["verdict"] for turn in turns))


def _test_differences(
    was: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    before, after = (
        {f"test {n}": test["status"] for n, test in enumerate(details.get("tests", ()), 1)}
        | {"loading the program": (details.get("error") or {}).get("status")}
        for details in (was["details"], now["details"])
    )
    for subject in dict.fromkeys([*before, *after]):
        if before.get(subject) != after.get(subject):
            yield subject, before.get(subject), after.get(subject)


def _close(was: float, now: float) -> bool:
    return math.isclose(was, now, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _difference(
    place: StoredGroup, sample: int | None, subject: str, was: Any, now: Any
) -> Difference:
    number = None if sample is None else sample + 1
    return Difference(**place.position(), sample=number, what=subject, was=was, now=now)


def _from_the_difference(was: Any, now: Any) -> tuple[Any, Any]:
    """Cut two texts to shortly before the place where they part; return other values as they are."""
    if not (isinstance(was, str) and isinstance(now, str)):
        return was, now
    equal = [before == after for before, after in zip(was, now, strict=False)]
    begin = max(0, [*equal, False].index(False) - BEFORE)
    return was[begin:], now[begin:]


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= WIDTH else f"{text[:WIDTH]}..."
