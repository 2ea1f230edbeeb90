"""Processor time and memory of a process and its descendants, read from Linux's /proc.

Standard library only: `host.py` loads this file.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def descendants(process: int) -> set[int]:
    """Return the process itself and all that live below it."""
    every = [int(path.name) for path in PROC.glob("[0-9]*")]
    parents = {number: int(stat[1]) for number in every if (stat := _stat(number))}
    family: set[int] = set()
    pending = [process]
    while pending:
        current = pending.pop()
        family.add(current)
        pending += [child for child, parent in parents.items() if parent == current]
    return family


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process and all below it, with those that have ended and been waited for."""
    stats = (_stat(number) for number in descendants(process))
    return sum(sum(map(int, stat[11:15])) for stat in stats if stat) / TICKS_PER_SECOND


def memory_megabytes(processes: Collection[int]) -> tuple[float, str]:
    """Return the processes' memory and its kind.

    In PSS, pages that n of all processes share count as 1/n. RSS, where this user may not read that, counts them
    for each process, so it is an upper bound.
    """
    try:
        lines = [line for one in processes for line in _read(one, "smaps_rollup").splitlines()]
    except PermissionError:
        fields = [_read(process, "statm").split() for process in processes]
        pages = sum(int(sizes[1]) for sizes in fields if sizes)
        return pages * PAGE_BYTES / 2**20, "RSS: this user may not read PSS"
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024, "PSS"


def peak_megabytes() -> float:
    """Return the most resident memory that this process has had since it was started.

    Not `getrusage`, which counts what the parent held when it forked.
    """
    lines = _read(os.getpid(), "status").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def _stat(process: int) -> list[str]:
    """Return the fields of `stat` after the name, from the state on; none if the process has gone."""
    # The name before it may have spaces and parentheses.
    return _read(process, "stat").rpartition(")")[2].split()


def _read(process: int, name: str) -> str:
    """Return one of the process's files; empty if the process has gone."""
    try:
        return (PROC / str(process) / name).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
