"""What a process and its descendants use, read from Linux's /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def descendants(process: int) -> set[int]:
    """The process itself and all that live below it."""
    every = [int(path.name) for path in PROC.glob("[0-9]*")]
    parents = {each: int(stat[1]) for each in every if (stat := _stat(each))}
    found: set[int] = set()
    pending = [process]
    while pending:
        current = pending.pop()
        found.add(current)
        pending += [child for child, parent in parents.items() if parent == current]
    return found


def cpu_seconds(process: int) -> float:
    """CPU time of a process and all below it, with those that have ended and been waited for."""
    stats = (_stat(each) for each in descendants(process))
    return sum(sum(map(int, stat[11:15])) for stat in stats if stat) / TICKS_PER_SECOND


def memory_megabytes(processes: Iterable[int]) -> float:
    """The processes' memory; pages that n of all processes share count as 1/n.

    Raises:
        PermissionError: If one of them is closed to this user.
    """
    lines = [line for each in processes for line in _read(each, "smaps_rollup").splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def resident_megabytes(processes: Iterable[int]) -> float:
    """The processes' resident memory: shared pages count for each, so it is an upper bound."""
    fields = [_read(each, "statm").split() for each in processes]
    return sum(int(each[1]) for each in fields if each) * PAGE_BYTES / 2**20


def _stat(process: int) -> list[str]:
    """The fields of `stat` after the name, from the state on; none if the process has gone."""
    return _read(process, "stat").rpartition(")")[2].split()


def _read(process: int, name: str) -> str:
    """One of the process's files; empty if the process has gone."""
    try:
        return (PROC / str(process) / name).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
