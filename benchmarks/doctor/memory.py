"""The memory of this machine, its free part, and the need of the demo."""

from __future__ import annotations

import os
import re
from pathlib import Path

from llm_decpomdp.benchmarks.config.errors import RunError

DEMO = 8.5
"""GiB that `llm-decpomdp demo` needs: for two models of 135 million weights, their gradients and moments."""

LESS = (
    "train adapters in place of all weights, which needs 3.5 GiB and learns less: llm-decpomdp demo "
    "--override 'model.lora={r: 16}'"
)
"""The way out where that is too much."""

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
    available = int(match[1]) / 2**20
    limit = CGROUP / "memory.max"
    if limit.is_file() and (most := limit.read_text().strip()) != "max":
        usage = int((CGROUP / "memory.current").read_text())
        cached = re.search(
            r"^inactive_file (\d+)", (CGROUP / "memory.stat").read_text(), re.MULTILINE
        )
        available = min(available, (int(most) - usage + int(cached[1] if cached else 0)) / GIB)
    return available


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
