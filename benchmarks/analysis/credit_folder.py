"""The credit of the agents in a folder of stored episodes, measured and written down there."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track

from llm_decpomdp.benchmarks.analysis.credit import credits
from llm_decpomdp.benchmarks.analysis.credit_summary import NAMES, MeasurementPoint, write
from llm_decpomdp.benchmarks.analysis.replay import Replayed, Unreached, replay
from llm_decpomdp.benchmarks.analysis.rescore import differences_of
from llm_decpomdp.benchmarks.analysis.stored import Stored, stored
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.runs.failures import as_run_errors
from llm_decpomdp.validation import unknown

PHASES = ("eval", "train")
"""Phases of stored episodes; by default the first of them that a folder has."""


@dataclass(frozen=True)
class FolderCredit:
    """The credit of the agents in a folder."""

    points: list[MeasurementPoint]
    files: tuple[Path, Path]
    """JSON and CSV, with everything."""
    warnings: tuple[str, ...]
    """Differences between the episodes as they are stored and as they are played again."""


def credit_folder(folder: Path, phase: str | None = None, seed: int = 0) -> FolderCredit:
    """Measure which agents earned the rewards of a folder, and write that down there.

    Args:
        folder: That of a run or an evaluation.
        phase: One of `PHASES`.
        seed: See `llm_decpomdp.benchmarks.analysis.credit.credits`.

    Raises:
        ConfigError: If there are no such episodes, or nothing says where they were played.
        RunError: If the data cannot be loaded, or programs cannot be run.
    """
    episodes = stored(folder)
    phase = _phase(episodes, phase)
    changed_lines: list[int] = []
    with as_run_errors():
        count = sum(1 for _ in episodes.rows((phase,)))
        rows = track(
            episodes.rows((phase,)),
            "playing counterfactuals",
            total=count,
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
        )
        groups = _reached(replay(episodes.envs, rows), episodes, changed_lines)
        agents = list(credits(groups, seed))
    if not agents:
        raise ConfigError(
            f"{folder}: no episode can be played again; llm-decpomdp rescore says why"
        )
    about = {"phase": phase, "episodes": count, "changed_groups": len(changed_lines), "seed": seed}
    points = write(folder, agents, about)
    name = NAMES[phase]
    files = folder / f"{name}.json", folder / f"{name}.csv"
    return FolderCredit(points, files, tuple(_warnings(episodes, changed_lines)))


def _phase(episodes: Stored, phase: str | None) -> str:
    """Return a phase that has episodes: the one that is asked for, or the first."""
    if phase not in (None, *PHASES):
        raise ConfigError(unknown("phase", phase, PHASES))
    candidates = [phase] if phase else PHASES
    for candidate in candidates:
        if next(episodes.rows((candidate,)), None):
            return candidate
    raise ConfigError(f"{episodes.path} holds no episodes of {' or '.join(candidates)}")


def _reached(
    groups: Iterable[Replayed | Unreached], episodes: Stored, changed_lines: list[int]
) -> Iterator[Replayed]:
    """Yield groups that could be played again; note the lines of those that differ from what is stored."""
    for group in groups:
        if differences_of(group, episodes):
            changed_lines.append(group.place.line)
        if isinstance(group, Replayed):
            yield group


def _warnings(episodes: Stored, changed_lines: list[int]) -> Iterator[str]:
    yield from episodes.changes_of_data()
    if changed_lines:
        yield (
            f"{len(changed_lines)} groups, the first in line {changed_lines[0]}, are not as they are stored; the "
            "numbers are of what they are now. llm-decpomdp rescore names what differs"
        )
