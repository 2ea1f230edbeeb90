"""The processes below this one, by way of Linux' /proc; elsewhere none are seen."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36

LOOKS = 10
"""Most looks at the processes until two agree."""


def adopt_orphans() -> None:
    """Makes processes below this one its children when their parents end: they cannot slip away."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants() -> set[int]:
    """The living processes below this one.

    A process that ends during a look hands its children over to this one behind the look's back, so only what
    two looks agree on counts; where processes start and end all the time, the last look.
    """
    states: dict[int, bool] = {}
    for _ in range(LOOKS):
        before, states = states, _look()
        if states == before:
            break
    return {pid for pid, living in states.items() if living}


def end(processes: set[int]) -> None:
    """Kill processes below this one, and those that they start meanwhile."""
    deadline = time.monotonic() + 10
    while processes and time.monotonic() < deadline:
        for pid in processes:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it was quicker
        time.sleep(0.01)
        processes = descendants()


def _look() -> dict[int, bool]:
    """The processes below this one, and whether each lives or waits to be buried."""
    states: dict[int, bool] = {}
    waiting = [os.getpid()]
    while waiting:
        for child in _children(waiting.pop()):
            states[child] = not _ended(child)
            if states[child]:
                waiting.append(child)
    return states


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
