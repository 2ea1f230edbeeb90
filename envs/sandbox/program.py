"""Inputs and outputs of the sandbox: programs, instrumented tests and limits; outcomes of tests and executions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict


class SandboxError(RuntimeError):
    """Failure of the sandbox itself. It is never caused by a program, and must not become a low reward."""


@dataclass(frozen=True)
class Program:
    """A program in parts that share one namespace, run in order."""

    segments: tuple[tuple[str, str], ...]
    """(origin, code) of each part. The origin is the author, such as an agent's id. Lines count within each
    part."""
    entry_point: str
    """The function under test."""
    preamble: str = ""
    """Trusted code that comes first, such as a prompt's imports and helpers; tests may use its names too."""
    helpers: tuple[tuple[str, str], ...] = ()
    """(origin, name) of functions whose calls are counted, and whose results are changed in further runs to find
    out whether they matter. The function is the one that the part of its origin defines."""
    substitute: bool = False
    """True to also run the program with each helper replaced by a trivial function, and with each helper instead
    of the entry point. See `Execution.helpers_used` and `Execution.helpers_suffice`."""
    divide: bool = False
    """True to find out instead for each test what the entry point and the helpers add. See
    `Execution.main_adds` and `Execution.helpers_add`."""


@dataclass(frozen=True)
class Tests:
    """An instrumented test."""

    source: str
    """Code of a module that defines `__check__(candidate, __record__, __stage__)`."""
    cases: tuple[str, ...]
    """Text of each test, with the entry point's name in place of the parameter's."""
    guards: frozenset[int]
    """Tests that pass by not being reached."""
    stages: tuple[int, ...]
    """Stage of each test; -1 in helper functions outside the test function."""
    num_stages: int
    stage_reads: tuple[tuple[str, ...], ...] = ()
    """Variables that each stage may read."""
    stage_writes: tuple[tuple[str, ...], ...] = ()
    """Variables that each stage may write: if it fails, later stages that read them fail too."""
    prefetch: bool = True
    """Make the calls of the call plan all at once, which saves time."""
    shown: int = 0
    """Number of tests, from the first on, that prompts may show: the calls of later tests are sent only after
    theirs are answered, as the program's exceptions are shown too. 0 to send all at once."""
    vary: bool = False
    """True if the number of times that a test is reached may depend on the program."""
    judges_result: tuple[bool, ...] = ()
    """True for each test that looks at the result of a call; others look at changed arguments."""
    minimum: tuple[int, ...] = ()
    """Number of times that each test must be reached at least to pass."""
    split: bool = True
    """Run the tests apart from the program. Otherwise a program can forge their reports."""
    methods: frozenset[str] = frozenset()
    """Methods that the task defines, besides those of classes in the program's preamble: objects of the program
    answer to them even if values have methods or operators of that name."""

    def raise_minimum(self, reached: Sequence[int]) -> Tests:
        """Require that each test is reached at least as often as by a reference solution."""
        minimum = tuple(max(old, new) for old, new in zip(self.minimum, reached, strict=True))
        return replace(self, minimum=minimum)


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


@dataclass(frozen=True)
class Outcome:
    """The result of one test."""

    case: str
    """The test's own text, as an agent may be shown it."""
    passed: bool
    status: str = "passed"
    """`passed`, `failed`, `error`, `timeout`, `memory`, `crashed` or `not_run`."""
    message: str = ""
    """Reason for not passing: "Type: text"."""
    origin: str = ""
    """The agent whose code raised, when the test failed with an exception."""
    line: int = 0
    """Line of `origin`'s code that raised, counted from 1; 0 where unknown."""


@dataclass(frozen=True)
class Execution:
    """Result of running a program against its tests."""

    tests: tuple[Outcome, ...]
    error: Outcome | None
    """Failure to load the program; None if it was loaded."""
    output: str
    """Beginning of the program's output."""
    seconds: float
    """Time on the clock that the grading took; of the first run, where the result was cached."""
    helper_calls: tuple[int, ...] = ()
    """Calls of each of `Program.helpers` while passing tests ran, as far as the program tells the truth. Calls
    from helpers' parts do not count, unless these nowhere name the function: then it was passed as a callback."""
    helpers_used: tuple[bool, ...] = ()
    """True for each helper if some test's outcome depends on its results: other tests pass in a run that changes
    them within their type. With `Program.substitute`, one thing more is needed: some passing test fails with a
    constant, and with the helper's arguments, in place of its results. A helper that was called only while loading
    may be used, too. With `Program.divide`, it is true instead if the helper adds to a test (`helpers_add`)."""
    helpers_suffice: tuple[bool, ...] = ()
    """True for each helper that is called if every passing test passes again with the helper in place of the entry
    point. False for all without `Program.substitute`, and for the helpers after the first that suffices."""
    main_adds: tuple[bool, ...] = ()
    """With `Program.divide`, for each test: True if it passes, and fails with a helper in place of the entry
    point."""
    helpers_add: tuple[tuple[bool, ...], ...] = ()
    """With `Program.divide`, for each helper and test: True if it passes, and fails with a trivial function in
    place of the helper."""
    reached: tuple[int, ...] = ()
    """Number of times that each test was reached."""
    wall_decided: bool = False
    """True if a time-out came from the wall clock, or the system killed the program: another run may differ."""


class WorkerResult(TypedDict):
    """Result of a program as a worker sends it in JSON: the fields of `Execution`, by the same names."""

    tests: list[list[Any]]
    """Outcome of each test: passed, status, message, origin and line, as in `Outcome`."""
    error: list[Any] | None
    """Outcome of loading in the same form, if that failed."""
    output: str
    seconds: float
    helper_calls: list[int]
    helpers_used: list[bool]
    helpers_suffice: list[bool]
    main_adds: list[bool]
    helpers_add: list[list[bool]]
    reached: list[int]
    wall_decided: bool


ENDLESS = "TimeoutError: the test did not end on the program's values within {seconds:g} seconds"
"""Message of a test whose own code did not end; a program that does not end has another."""
