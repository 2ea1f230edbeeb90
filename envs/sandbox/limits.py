"""Limits on the resources of a program in the sandbox."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Larger values do not fit into the fields of timers and of `setrlimit`.
LARGEST = (10**6, 2**50)  # largest value of limits on time and numbers, and of limits on bytes
# The rest is for the runs that check helpers: if the tests used all of it, every helper would count as used.
TESTS_SHARE = 0.8
"""Share of `Limits.job_seconds` in which the tests of a program with helpers are decided."""


@dataclass(frozen=True)
class Limits:
    """Resource limits of one program.

    Times are processor time, so that a busy machine does not fail a correct program. `wall_factor` times as much
    wall time may pass, which ends a program that sleeps. `job_seconds` is wall time.
    """

    load_seconds: float = 10.0
    """Limit on loading the program, in seconds."""
    test_seconds: float = 10.0
    """Limit on one call of the entry point, in seconds."""
    program_seconds: float = 25.0
    """Limit on the whole program, in seconds."""
    wall_factor: float = 3.0
    job_seconds: float = 28.0
    """Limit on the wall time of all runs of a program, in seconds. With helpers, the run that decides the tests
    may take `TESTS_SHARE` of it; the runs that check the helpers have the rest."""
    # As in the seeds' reward: after three time-outs the other tests of a program are not run.
    max_timeouts: int = 3
    """Time-outs or crashes after which the remaining calls are not made."""
    memory_bytes: int = 512 * 2**20
    """Address space of the process. macOS does not enforce it."""
    file_bytes: int = 16 * 2**20
    """Largest file, in bytes."""
    # Small, because each cached result keeps it: 4096 results hold at most 16 MiB of output.
    output_bytes: int = 4 * 2**10
    """Bytes of the program's output that are kept, also in each cached result."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            most = LARGEST[name.endswith("_bytes")]
            if not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value!r}")
            if value > most:
                raise ValueError(f"{name} must be at most {most}, got {value!r}")
        if self.wall_factor < 1:
            raise ValueError(f"wall_factor must be at least 1, got {self.wall_factor!r}")
