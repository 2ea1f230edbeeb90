"""What the sandbox is given, and what it gives back."""

from __future__ import annotations

import math
from dataclasses import dataclass

from llm_decpomdp.envs.sandbox.outcome import Outcome


class SandboxError(RuntimeError):
    """The sandbox itself failed: never the program's fault, never a low reward."""


@dataclass(frozen=True)
class Program:
    """A program in parts that share one namespace, run in order."""

    segments: tuple[tuple[str, str], ...]
    """(origin, code): whose code it is, such as an agent's id. Line numbers count within each part."""
    entry_point: str
    """The function under test."""
    preamble: str = ""
    """Trusted code that comes first, such as a prompt's imports and helpers; tests may use its names too."""
    helpers: tuple[tuple[str, str], ...] = ()
    """(origin, name) of functions whose calls are counted, and whose results are changed to see whether they
    matter: each as its own part defines it."""


LARGEST = (10**6, 2**50)
"""Of the limits on time and numbers, and of those on bytes."""


@dataclass(frozen=True)
class Limits:
    """What one program may use.

    Time is processor time, so that a busy machine does not turn a right answer wrong; `wall_factor` times as
    much may pass on the clock, which ends a program that sleeps.
    """

    load_seconds: float = 10.0
    """To define everything, in seconds."""
    test_seconds: float = 10.0
    """One call of the entry point, in seconds."""
    program_seconds: float = 60.0
    """All of it together, in seconds."""
    wall_factor: float = 3.0
    max_timeouts: int = 3
    """After so many time-outs or crashes the remaining calls are not made."""
    memory_bytes: int = 512 * 2**20
    """Address space of the process. macOS does not enforce it."""
    file_bytes: int = 16 * 2**20
    """Largest file."""
    output_bytes: int = 4 * 2**10
    """How much of what the program prints is kept, in each verdict that is remembered too."""

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
    """What running a program against its tests showed."""

    tests: tuple[Outcome, ...]
    error: Outcome | None
    """Why the program could not be loaded; None if it was."""
    output: str
    """The beginning of what the program printed."""
    seconds: float
    """Time on the clock that the grading took; that of the first time, where the verdict was remembered."""
    helper_calls: tuple[int, ...] = ()
    """How often each of `Program.helpers` was called while tests that pass ran, as far as the program tells the
    truth. What helpers' parts call does not count, unless they nowhere name it: then they were handed it."""
    helpers_used: tuple[bool, ...] = ()
    """Whether some test's outcome depends on what each of them returned: it does if another run, with these
    results changed within their type, passes other tests. One may be used that was only called while loading."""
    reached: tuple[int, ...] = ()
    """How often each test was reached."""
    wall_decided: bool = False
    """Whether a time-out came from the clock on the wall, or the system killed the program: then another run may
    end otherwise."""
