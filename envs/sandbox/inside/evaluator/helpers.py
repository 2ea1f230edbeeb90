"""Whether a program calls its helpers, and whether any test's outcome depends on what they return.

A helper is called if the program calls it while a test that passes runs. It is used if other tests pass when the
program runs once more with the helper's results changed (`changes.py`). It runs for this in the process that it
has already, loaded anew, unless it takes long or writes files: it could tell the runs apart, and all it can gain
so is what a program gains that uses the result.
"""

from __future__ import annotations

import time

from llm_decpomdp.envs.sandbox.inside.protocol.requests import CHANGES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from llm_decpomdp.envs.sandbox.inside.evaluator.reports import Findings
    from llm_decpomdp.envs.sandbox.inside.evaluator.session import Session

CALL_SECONDS = 0.2
"""Processor time that a call with changed results may take, beside twice what the whole run took without."""

RUNS_SECONDS = 5.0
"""Time on the clock after which no further run begins, beside four times what the run without took if it ended."""


def calls_in_passing(findings: Findings, tests: list[list[Any]], helpers: int) -> list[int]:
    """How often each helper ran in stages in which a test passes, or that only prepare others.

    Args:
        findings: Of the run of the program.
        tests: What became of each test.
        helpers: How many helpers there are.
    """
    passing = {stage for stage, test in zip(findings.stages, tests, strict=True) if test[0]}
    calls = [0] * helpers
    for stage, found in findings.calls.items():
        if stage in passing or stage not in findings.stages:
            calls = [old + new for old, new in zip(calls, found, strict=True)]
    return calls


def used(
    session: Session,
    tests: list[list[Any]],
    calls: list[int],
    seconds: float,
    run: Callable[[], Findings],
) -> list[bool]:
    """For each helper whether another test passes, or one no longer does, if its results are changed.

    Args:
        session: That of the program, which has run once.
        tests: What became of each test.
        calls: How often each helper was called in tests that pass; one that was called while loading may be used
            as well.
        seconds: How long the program has run.
        run: Runs the program against the tests.
    """
    before = [passed for passed, *_ in tests]
    found = [False] * len(calls)
    if not any(before):
        return found
    asked = {
        i for i, times in enumerate(zip(calls, session.loading_calls, strict=True)) if any(times)
    }
    session.limits = _limits(session, seconds)
    session.heavy = seconds > CALL_SECONDS
    slow = any(status == "timeout" for _, status, *_ in tests)  # each run would take as long
    deadline = time.monotonic() + RUNS_SECONDS + (0 if slow else 4 * seconds)
    for kind in range(CHANGES):
        for helper in sorted(asked):
            if time.monotonic() > deadline:
                session.wall_decided = True
                return found
            session.request["change"] = [helper, kind]
            found[helper] = [passed for passed, *_ in run().outcomes()] != before
            if found[helper]:
                asked.remove(helper)
    return found


def _limits(session: Session, seconds: float) -> dict[str, Any]:
    """Limits of runs with changed results, which may loop for ever.

    On the clock a call has as much time as before: what other processes do shall not look like a change.
    """
    limits = session.limits
    call = min(CALL_SECONDS + 2 * seconds, limits["test_seconds"])
    return {
        **limits,
        "load_seconds": min(call, limits["load_seconds"]),
        "test_seconds": call,
        "program_seconds": call,
        "max_timeouts": min(session.failures + 1, limits["max_timeouts"]),
        "wall_factor": max(limits["wall_factor"] * limits["test_seconds"] / call, 1.0),
    }
