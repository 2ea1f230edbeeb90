"""The outcome of a test, and the details of a verdict that are made of outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


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


INFO_KEYS = ("tests_passed", "tests_total")
"""Numbers of `details` that infos repeat."""


def not_run(cases: Iterable[str], why: str) -> tuple[Outcome, ...]:
    """Return the outcomes of tests that were not run."""
    return tuple(Outcome(case, False, "not_run", why) for case in cases)


def details(tests: Sequence[Outcome], error: Outcome | None = None) -> dict[str, Any]:
    """Return the details of a verdict.

    Args:
        tests: The outcomes of all tests of the task, in order.
        error: Why the joint program could not be loaded at all.
    """
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
