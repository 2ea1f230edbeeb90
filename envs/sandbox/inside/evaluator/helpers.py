"""Use of helpers: calls by the program, and dependence of the tests' outcomes on their results.

A helper is called if the program calls it while a test that passes runs. It is used if other tests pass when the
program runs once more with the helper's results changed (`changes.py`). The program is loaded anew for this in the
same process, unless it takes long or writes files: it could tell the runs apart, but all that it can gain by that
is what a program gains that uses the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from llm_decpomdp.envs.sandbox.inside.evaluator.reports import Findings
from llm_decpomdp.envs.sandbox.inside.evaluator.session import Session
from llm_decpomdp.envs.sandbox.inside.protocol.operations import CHANGES

CALL_SECONDS = 0.2
"""Processor time that a call with changed results may take, beside twice that of the whole unchanged run."""

RUNS_SECONDS = 5.0
"""Wall time after which no further run begins, beside four times that of the unchanged run if it ended."""


def calls_in_passing(findings: Findings, tests: list[list[Any]], helpers: int) -> list[int]:
    """Count the calls of each helper in stages in which a test passes, or which have no test.

    Args:
        findings: Findings of the run of the program.
        tests: Outcome of each test.
        helpers: Number of helpers.
    """
    passing = {stage for stage, test in zip(findings.stages, tests, strict=True) if test[0]}
    calls = [0] * helpers
    for stage, counts in findings.calls.items():
        if stage in passing or stage not in findings.stages:
            calls = [old + new for old, new in zip(calls, counts, strict=True)]
    return calls


def used(
    session: Session,
    tests: list[list[Any]],
    calls: list[int],
    seconds: float,
    run: Callable[[], Findings],
) -> list[bool]:
    """Check for each helper whether another test passes, or one no longer does, if its results are changed.

    Args:
        session: Session of the program, which has run once.
        tests: Outcome of each test.
        calls: Calls of each helper in tests that pass; one that was called while loading may be used as well.
        seconds: Duration of the unchanged run.
        run: Runs the program against the tests.
    """
    before = [passed for passed, *_ in tests]
    results = [False] * len(calls)
    if not any(before):
        return results
    pending = {
        i for i, times in enumerate(zip(calls, session.loading_calls, strict=True)) if any(times)
    }
    session.limits = _limits(session, seconds)
    session.needs_fresh_process = seconds > CALL_SECONDS
    slow = any(status == "timeout" for _, status, *_ in tests)  # each run would take as long
    deadline = time.monotonic() + RUNS_SECONDS + (0 if slow else 4 * seconds)
    for kind in range(CHANGES):
        for helper in sorted(pending):
            if time.monotonic() > deadline:
                session.wall_decided = True
                return results
            session.request["change"] = [helper, kind]
            results[helper] = [passed for passed, *_ in run().outcomes()] != before
            if results[helper]:
                pending.remove(helper)
    return results


def _limits(session: Session, seconds: float) -> dict[str, Any]:
    """Return the limits of runs with changed results, which may loop for ever.

    The wall time of a call stays the same: the load of other processes must not look like a change.
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
