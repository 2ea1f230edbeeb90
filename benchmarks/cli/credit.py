"""The command `llm-decpomdp credit`: from a folder of episodes to tables of who earned what."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import track

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.cooperation.credit import credits
from llm_decpomdp.benchmarks.cooperation.credit_summary import NAMES, Moment, table, write
from llm_decpomdp.benchmarks.cooperation.replay import Replayed, Unreached, replay
from llm_decpomdp.benchmarks.cooperation.rescore import differences_of
from llm_decpomdp.benchmarks.cooperation.stored import Stored, stored
from llm_decpomdp.benchmarks.runs.failures import as_run_errors
from llm_decpomdp.validation import unknown

PHASES = ("eval", "train")
"""Whose episodes are looked at; the first of them that a folder has, if none is asked for."""


def run(folder: Path, phase: str | None = None, seed: int = 0) -> list[Moment]:
    """Find out who earned the rewards of a folder, write it down there, and print it.

    Args:
        folder: That of a run or an evaluation.
        phase: One of `PHASES`.
        seed: See `llm_decpomdp.benchmarks.cooperation.credit.credits`.

    Raises:
        ConfigError: If there are no such episodes, or nothing says where they were played.
        RunError: If the data cannot be loaded, or programs cannot be run.
    """
    found = stored(folder)
    phase = _phase(found, phase)
    changed: list[int] = []  # lines of what is not as it is stored
    with as_run_errors():
        rows = sum(1 for _ in found.rows((phase,)))
        shown = track(
            found.rows((phase,)),
            "playing counterfactuals",
            total=rows,
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
        )
        known = list(credits(_reached(replay(found.envs, shown), found, changed), seed))
    if not known:
        raise ConfigError(
            f"{folder}: no episode can be played again; llm-decpomdp rescore says why"
        )
    about = {"phase": phase, "episodes": rows, "changed_groups": len(changed), "seed": seed}
    told_at = write(folder, known, about)
    console = Console(highlight=False)
    for warning in _warnings(found, changed):
        console.print(warning, style="yellow", soft_wrap=True)
    for moment in told_at if len(told_at) < 3 else (told_at[0], told_at[-1]):
        console.print(table(moment))
    name = folder / NAMES[phase]
    console.print(f"credit: {name}.json, {name}.csv", soft_wrap=True)
    return told_at


def _phase(found: Stored, asked: str | None) -> str:
    """The phase that was asked for, or the first that has episodes."""
    if asked not in (None, *PHASES):
        raise ConfigError(unknown("phase", asked, PHASES))
    chosen = [asked] if asked else PHASES
    for phase in chosen:
        if next(found.rows((phase,)), None):
            return phase
    raise ConfigError(f"{found.path} holds no episodes of {' or '.join(chosen)}")


def _reached(
    played: Iterable[Replayed | Unreached], found: Stored, changed: list[int]
) -> Iterator[Replayed]:
    """What could be played again; notes the lines of groups that are not as they are stored."""
    for one in played:
        if differences_of(one, found):
            changed.append(one.place.line)
        if isinstance(one, Replayed):
            yield one


def _warnings(found: Stored, changed: list[int]) -> Iterator[str]:
    yield from found.changes_of_data()
    if changed:
        yield (
            f"{len(changed)} groups, the first in line {changed[0]}, are not as they are stored; the numbers are "
            "of what they are now. llm-decpomdp rescore names what differs"
        )
