"""The processes below this one, by way of Linux' /proc; elsewhere none are seen."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Makes processes below this one its children when their parents end: they cannot slip away."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants() -> set[int]:
    """The living processes below this one."""
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        for child in _children(waiting.pop()):
            if _ended(child):
                continue
            found.add(child)
            waiting.append(child)
    return found


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
