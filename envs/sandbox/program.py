"""Inputs and outputs of the sandbox: programs and limits; outcomes of tests, executions and their details."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


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
    """True for each helper if some test's outcome depends on its results: if another run, with these changed
    within their type, passes other tests. With `Program.substitute`, a helper is not used either if every passing
    test passes again with a constant or the helper's arguments in place of its results. A helper that was called
    only while loading may be used, too."""
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


INFO_KEYS = ("tests_passed", "tests_total")  # numbers of `details` that infos repeat


def not_run(cases: Iterable[str], why: str) -> tuple[Outcome, ...]:
    """Return the outcomes of tests that were not run."""
    return tuple(Outcome(case, False, "not_run", why) for case in cases)


def details(tests: Sequence[Outcome], error: Outcome | None = None) -> dict[str, Any]:
    """Return the details of a reward's `Verdict`: the outcomes of all tests, and the failure to load it."""
    return {
        "tests_passed": sum(test.passed for test in tests),
        "tests_total": len(tests),
        "tests": [dict(vars(test)) for test in tests],
        "error": None if error is None else dict(vars(error)),
    }


def notes(details: Mapping[str, Any]) -> list[str]:
    """Return lines for people about `details`: every test that did not pass, and why."""
    lines = []
    if details["error"] is not None:
        lines.append(f"could not load: {details['error']['message']}")
    if details["tests"]:
        lines.append(f"tests {details['tests_passed']}/{details['tests_total']} passed")
    failed = (test for test in details["tests"] if not test["passed"])
    return lines + [f"  {test['status']}: {test['case']}  {test['message']}" for test in failed]


# Tests that do not end: each new program costs the whole time limit until the row of the data is mended

ENDLESS = "TimeoutError: the test did not end on the program's values within {seconds:g} seconds"
"""Message of a test whose own code did not end; a program that does not end has another."""

# The values of one program may be absurd; a second program shows that the row of the data is at fault.
MIN_PROGRAMS = 2  # different programs on whose values a test must not end before its task is named

logger = logging.getLogger(__name__)

_PROGRAMS: dict[tuple[str, str], set[int]] = {}  # hashes of the programs so far, by task and test


def warn_about_endless_tests(
    task_id: str, test: str, completions: Mapping[str, str], execution: Execution
) -> None:
    """Warn, once for each task, when its tests did not end on the values of `MIN_PROGRAMS` programs."""
    begin = ENDLESS.partition("{")[0]
    endless = next((o for o in execution.tests if o.message.startswith(begin)), None)
    if endless is None:
        return
    programs = _PROGRAMS.setdefault((task_id, test), set())
    if len(programs) >= MIN_PROGRAMS:
        return
    programs.add(hash(frozenset(completions.items())))
    if len(programs) == MIN_PROGRAMS:
        logger.warning(
            "task %r: %s, for %d different programs, and each new one will take as long; if the test loops "
            "whatever it is given, mend its row or leave it out: run llm-decpomdp check data, with --source for "
            "a file",
            *(task_id, endless.message.removeprefix("TimeoutError: "), MIN_PROGRAMS),
        )
