"""Use of helpers: calls by the program, and dependence of the tests' outcomes on their results.

A helper is called if the program calls it while a test that passes runs. Mutant runs decide everything else:

- A helper *suffices* if every passing test passes again with the helper in place of the entry point.
- A helper is *used* if other tests pass when its results are changed (`result_mutation.py`), and a passing test
  fails when a trivial function replaces it.

A mutant run ends at the first failure of a test that passed. The program is loaded anew for it in the same
process, unless it takes long or writes files. So a program can distinguish the runs. By that it gains at most the
points of a program that uses the results and whose entry point does more than the helper.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from llm_decpomdp.envs.sandbox.worker.evaluator.reports import Findings
from llm_decpomdp.envs.sandbox.worker.evaluator.session import ProgramSession
from llm_decpomdp.envs.sandbox.worker.protocol import channel

# Seconds of processor time of a mutant run, and of a call, beyond `FACTOR` times that of the first run: the
# resolution of clocks must not decide about a fast program.
CALL_SECONDS = 0.02
# Changed results may make a correct program slower, and pages of new memory take twice as long on some machines.
# But a program that loops must not take seconds each time.
FACTOR = 4.0
# Duration of the first run above which a program has a new process for each mutant run. A process has 25 s
# (`Limits.program_seconds`); slow programs would use it up in a few runs.
SLOW_SECONDS = 0.2

MIN_TESTS = 2
"""Number of passing tests that are enough to conclude something; all of them if there are fewer.

If the time limit ends a mutant run, at least this many tests must have passed again for it to
count as equal to the first run. At least this many must call the helper for its results to count as constant."""

# Statuses of tests that a run has not finished when the time limit ends it.
UNFINISHED = ("timeout", "not_run")


class RunComparison(NamedTuple):
    """Comparison of a mutant run with the first run."""

    differs: bool
    """True if the set of passing tests differs."""
    same: bool
    """True if every passing test passes again. Both are false if there was no time to find out."""
    calls: list[int]
    """Calls of each helper."""


class HelperChecks:
    """Mutant runs of a program, compared with its first run, of which there are `findings` after `seconds`.

    `run` runs the program against the tests, until a test fails that is expected to pass. It gets the expected
    outcomes, and the stages to leave out. The last run must end at the `deadline` on the clock.
    """

    def __init__(
        self,
        session: ProgramSession,
        findings: Findings,
        seconds: float,
        deadline: float,
        run: Callable[[list[bool], set[int]], Findings],
    ) -> None:
        self.session = session
        self.findings = findings
        self.tests = findings.outcomes()
        self.passed = [passed for passed, *_ in self.tests]
        self.deadline = deadline
        self.run = run
        self.enough = min(MIN_TESTS, sum(self.passed))
        pairs = list(zip(findings.stages, self.tests, strict=True))
        passing = {stage for stage, (passed, *_) in pairs if passed}
        # Each run would wait for these as long as the first one.
        self.hanging = {stage for stage, (_, status, *_) in pairs if status == "timeout"} - passing
        self.calls = calls_in_passing(findings, self.tests, len(session.loading_calls))
        self.may_matter = [
            any(self.passed) and any(times)
            for times in zip(self.calls, session.loading_calls, strict=True)
        ]
        """True for each helper that is called in a passing test or while the program is loaded."""
        session.needs_fresh_process = seconds > SLOW_SECONDS
        limits = session.limits
        # Mutant runs may loop for ever.
        call = min(CALL_SECONDS + FACTOR * session.slowest_answer, limits["test_seconds"])
        session.limits = {
            **limits,
            "load_seconds": min(call, limits["load_seconds"]),
            "test_seconds": call,
            "stage_seconds": min(CALL_SECONDS + FACTOR * seconds, limits["test_seconds"]),
            "program_seconds": CALL_SECONDS + FACTOR * seconds,
            "max_timeouts": min(session.failures + 1, limits["max_timeouts"]),
            # The wall time of a call stays the same: the load of other processes must not look like a change.
            "wall_factor": max(limits["wall_factor"] * limits["test_seconds"] / call, 1.0),
        }

    def find_used(self, substitute: bool) -> list[bool]:
        """Check for each helper whether it matters and, with `substitute`, is not trivial."""
        return [
            may_matter and self._matters(helper) and not (substitute and self._is_trivial(helper))
            for helper, may_matter in enumerate(self.may_matter)
        ]

    def find_sufficient(self) -> list[bool]:
        """Check for each helper whether it does as well as the entry point; stop at the first that does."""
        results = [False] * len(self.calls)
        for helper, may_matter in enumerate(self.may_matter):
            if may_matter and self._compare(helper, channel.AS_ENTRY_POINT).same:
                results[helper] = True
                break
        return results

    def _matters(self, helper: int) -> bool:
        """Check whether other tests pass with changed results; true if there was no time to find out."""
        same = False
        for kind in channel.MUTATIONS:
            comparison = self._compare(helper, kind)
            if comparison.differs:
                return True
            same = same or comparison.same
        return not same

    def _is_trivial(self, helper: int) -> bool:
        """Check whether every passing test passes again with a trivial function in place of the helper."""
        stages = [
            stage
            for stage, (passed, *_) in zip(self.findings.stages, self.tests, strict=True)
            if passed and self.findings.calls.get(stage, [0] * (helper + 1))[helper]
        ]
        # The result of a single call is always a constant.
        several = self.calls[helper] > 1 and len(stages) >= min(MIN_TESTS, len(self.tests))
        constants = [channel.FIRST_RESULT, channel.OTHER_RESULT]
        for kind in constants if several else [channel.PLAIN_RESULT]:
            if self._compare(helper, kind).same:
                return True
        comparison = self._compare(helper, channel.FIRST_ARGUMENT)
        if comparison.same or not comparison.calls[helper]:
            return comparison.same
        return self._compare(helper, channel.ALL_ARGUMENTS).same

    def _compare(self, helper: int, kind: int) -> RunComparison:
        """Run the program with a mutation, and compare the outcomes with those of the first run."""
        mutant_run = self.run_mutant(helper, kind, self.passed)
        if mutant_run is None:
            return RunComparison(False, False, [0] * len(self.calls))
        findings, timeout = mutant_run
        failures = repairs = agreements = 0
        for before, (passes, status, *_) in zip(self.passed, findings.outcomes(), strict=True):
            agreements += before and passes
            repairs += passes and not before
            failures += before and not passes and not (timeout and status in UNFINISHED)
        same = not failures and (not timeout or agreements >= self.enough)
        calls = [sum(counts) for counts in zip(*findings.calls.values(), strict=True)]
        return RunComparison(failures + repairs > 0, same, calls or [0] * len(self.calls))

    def run_mutant(
        self, helper: int, kind: int, expected: list[bool]
    ) -> tuple[Findings, bool] | None:
        """Run the program with a mutation, until a test fails that is expected to pass.

        Returns:
            The findings, and whether the clock ended the run; `None` if no time is left for it.
        """
        session, now = self.session, time.monotonic()
        if now >= self.deadline:
            session.wall_decided = True
            return None
        # Half of what is left, so that no run takes the time of all later ones.
        session.end = now + (self.deadline - now) / 2
        session.request["mutation"] = [helper, kind]
        by_clock, session.wall_decided = session.wall_decided, False
        findings = self.run(expected, self.hanging)
        timeout = session.wall_decided
        session.wall_decided = timeout or by_clock
        return findings, timeout


def calls_in_passing(findings: Findings, tests: list[list[Any]], helpers: int) -> list[int]:
    """Count the calls of each of the helpers in stages in which one of the tests passes, or which have no test."""
    passing = {stage for stage, test in zip(findings.stages, tests, strict=True) if test[0]}
    calls = [0] * helpers
    for stage, counts in findings.calls.items():
        if stage in passing or stage not in findings.stages:
            calls = [old + new for old, new in zip(calls, counts, strict=True)]
    return calls
