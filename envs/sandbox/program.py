"""Inputs and outputs of the sandbox: programs, limits, executions."""

from __future__ import annotations

import math
from dataclasses import dataclass

from llm_decpomdp.envs.sandbox.outcome import Outcome


class SandboxError(RuntimeError):
    """Failure of the sandbox itself: never the program's fault, never a low reward."""


@dataclass(frozen=True)
class Program:
    """A program in parts that share one namespace, run in order."""

    segments: tuple[tuple[str, str], ...]
    """(origin, code): the author, such as an agent's id, and the code. Line numbers count within each part."""
    entry_point: str
    """The function under test."""
    preamble: str = ""
    """Trusted code that comes first, such as a prompt's imports and helpers; tests may use its names too."""
    helpers: tuple[tuple[str, str], ...] = ()
    """(origin, name) of functions whose calls are counted, and whose results are changed to see whether they
    matter: each as its own part defines it."""


LARGEST = (10**6, 2**50)
"""Maximum of the limits on time and numbers, and of those on bytes."""


@dataclass(frozen=True)
class Limits:
    """Resource limits of one program.

    Time is processor time, so that a busy machine does not turn a right answer wrong; `wall_factor` times as
    much may pass on the clock, which ends a program that sleeps.
    """

    load_seconds: float = 10.0
    """Limit on loading the program, in seconds."""
    test_seconds: float = 10.0
    """Limit on one call of the entry point, in seconds."""
    program_seconds: float = 60.0
    """Limit on the whole program, in seconds."""
    wall_factor: float = 3.0
    max_timeouts: int = 3
    """Time-outs or crashes after which the remaining calls are not made."""
    memory_bytes: int = 512 * 2**20
    """Address space of the process. macOS does not enforce it."""
    file_bytes: int = 16 * 2**20
    """Largest file, in bytes."""
    output_bytes: int = 4 * 2**10
    """Bytes of the program's output that are kept, also in each cached verdict."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value!r}")
            if value > LARGEST[name.endswith("_bytes")]:
                raise ValueError(
                    f"{name} must be at most {LARGEST[name.endswith('_bytes')]}, got {value!r}"
                )
        if self.wall_factor < 1:
            raise ValueError(f"wall_factor must be at least 1, got {self.wall_factor!r}")


@dataclass(frozen=True)
class Execution:
    """Result of running a program against its tests."""

    tests: tuple[Outcome, ...]
    error: Outcome | None
    """Failure to load the program; None if it was loaded."""
    output: str
    """Beginning of the program's output."""
    seconds: float
    """Time on the clock that the grading took; of the first run, where the verdict was cached."""
    helper_calls: tuple[int, ...] = ()
    """Calls of each of `Program.helpers` while passing tests ran, as far as the program tells the truth. Calls
    from helpers' parts do not count, unless these nowhere name the function: then it was passed as a callback."""
    helpers_used: tuple[bool, ...] = ()
    """True for each helper if some test's outcome depends on its results: if another run, with these changed
    within their type, passes other tests. A helper that was called only while loading may be used, too."""
    reached: tuple[int, ...] = ()
    """Number of times that each test was reached."""
    wall_decided: bool = False
    """True if a time-out came from the wall clock, or the system killed the program: another run may differ."""
