"""The memory of this machine, its free part, and the need of the demo."""

from __future__ import annotations

import ctypes
import gc
import os
import re
from pathlib import Path

from llm_decpomdp.benchmarks.config.errors import RunError

# GiB that `llm-decpomdp demo` needs: for 135 million weights twice, and what a step keeps of each layer.
DEMO = 3.0

LESS = (
    "learn from fewer samples at a time, which learns less: llm-decpomdp demo --override "
    "algorithm.train_batch_size=1 algorithm.group_size=4 warm_start.batch_size=4"
)

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
GIB = 2**30


def total() -> float:
    """Return the GiB of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB


def free() -> float | None:
    """Return the GiB that a process may still take, also in a container; `None` where the system does not tell."""
    if not MEMINFO.is_file():
        return None
    match = re.search(r"^MemAvailable: +(\d+) kB", MEMINFO.read_text(), re.MULTILINE)
    if match is None:
        return None
    available = int(match[1]) / 2**20  # the file counts in KiB
    limit = CGROUP / "memory.max"
    if limit.is_file() and (most := limit.read_text().strip()) != "max":
        usage = int((CGROUP / "memory.current").read_text())
        # The kernel drops cached files before it refuses memory, so they count as free.
        cached = re.search(
            r"^inactive_file (\d+)", (CGROUP / "memory.stat").read_text(), re.MULTILINE
        )
        available = min(available, (int(most) - usage + int(cached[1] if cached else 0)) / GIB)
    return available


def give_back() -> None:
    """Return to the system what nothing uses any more, where the C library can: glibc keeps much of it."""
    gc.collect()
    # None stands for the symbols of this process; other C libraries than glibc have no such function.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def require_for_demo() -> None:
    """Check that there is room for the demo.

    Raises:
        RunError: If there is not; says what is free, what is needed, and what needs less.
    """
    gib = free()
    if gib is not None and gib < DEMO:
        raise RunError(
            f"the demo needs {DEMO} GiB of memory, and {gib:.1f} of {total():.1f} GiB are free: end other "
            f"programs, or {LESS}"
        )
