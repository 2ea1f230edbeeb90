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
from collections.abc import Callable, Iterable, Set
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
"""Number of passing tests that prove that nothing depends on a mutation; all passing tests if there are fewer.
They pass again in a run that the time limit ends, or call a helper whose results are constant."""

# Statuses of tests that a run has not finished when the time limit ends it.
UNFINISHED = ("timeout", "not_run")

SHARE = 0.9
"""Share of the tests in question that must pass with a substitute; all of them where it is a choice."""

# A change may make a program loop in some tests, and each restart costs the time of a call.
MAX_RESTARTS = 3

CONSTANTS = (channel.CONSTANT, channel.OTHER_CONSTANT)
UNRELATED = (channel.ALTERED, channel.EMPTY, *CONSTANTS)
"""Kinds of results that have nothing to do with the helper's arguments."""


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
            if may_matter and self._compare(helper, channel.IN_PLACE).same:
                results[helper] = True
                break
        return results

    def _matters(self, helper: int) -> bool:
        """Check whether other tests pass with changed results; true if there was no time to find out."""
        same = False
        for kind in range(channel.MUTATIONS):
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
        """Run the program with a mutation."""
        session, now = self.session, time.monotonic()
        if now >= self.deadline:
            session.wall_decided = True
            return RunComparison(False, False, [0] * len(self.calls))
        # Half of what is left, so that no run takes the time of all later ones.
        session.end = now + (self.deadline - now) / 2  # the rest is for later runs
        session.request["mutation"] = [helper, kind]
        by_clock, session.wall_decided = session.wall_decided, False
        findings = self.run(self.passed, self.hanging)
        timeout = session.wall_decided
        session.wall_decided = timeout or by_clock
        failures = repairs = agreements = 0
        for before, (passes, status, *_) in zip(self.passed, findings.outcomes(), strict=True):
            agreements += before and passes
            repairs += passes and not before
            failures += before and not passes and not (timeout and status in UNFINISHED)
        same = not failures and (not timeout or agreements >= self.enough)
        calls = [sum(counts) for counts in zip(*findings.calls.values(), strict=True)]
        return RunComparison(failures + repairs > 0, same, calls or [0] * len(self.calls))


class DivisionChecks(HelperChecks):
    """Mutant runs of a program that tell for each test what the entry point and the helpers add.

    A test counts for a side if it fails when something trivial takes that side's place. Some substitutes decide
    test by test: a helper's own result in place of the entry point's, and changed results where nothing depends on
    them. Any other substitute counts only if it explains `SHARE` of the tests in question. A constant, for
    example, is right in many single tests of a function that returns True or False.
    """

    def find_parts(self) -> dict[str, list[bool] | list[list[bool]] | list[int]]:
        """Return `main_adds`, `helpers_add` and `helpers_used`, as `Execution` has them."""
        self.runs: dict[tuple[int, int], set[int]] = {}
        limits = self.session.limits
        self.session.limits = {
            **limits,
            "max_timeouts": self.session.failures + MAX_RESTARTS,
            "program_seconds": limits["program_seconds"] * (1 + MAX_RESTARTS),
        }
        tests = range(len(self.passed))
        passing = {test for test in tests if self.passed[test]}
        helped = [self._called(helper) & passing for helper in range(len(self.calls))]
        trivial_main: set[int] = set()
        if any(helped):
            trivial_main = self._passes(0, channel.SAME) | self._passes(0, channel.DIRECT)
        for helper, called in enumerate(helped):
            if called:
                called -= self._unaffected(helper, called)
        shared = set().union(*helped) - trivial_main
        # Where one must explain all of them, a single run tries all kinds.
        apart = len(shared) >= 1 / (1 - SHARE) - 1e-6
        for kind in range(channel.ITEM, channel.ANY) if apart else [channel.ANY]:
            if shared:
                share = 1.0 if kind == channel.CHOICE else SHARE
                trivial_main |= self._explained(0, kind, shared, share)
        for helper, called in enumerate(helped):
            for kind in range(channel.EMPTY, channel.AGREEING + 1):
                if not called:
                    break
                # A single result is always a constant; only a plain one is trivial then.
                if kind in CONSTANTS and len(called) < 2:
                    kind = channel.PLAIN_RESULT
                question = called - trivial_main or called
                called -= self._explained(helper, kind, question, SHARE)
        helpers_add = [[test in called for test in tests] for called in helped]
        return {
            "main_adds": [test in passing - trivial_main for test in tests],
            "helpers_add": helpers_add,
            "helpers_used": [any(adds) for adds in helpers_add],
        }

    def _called(self, helper: int) -> set[int]:
        """Return the tests in whose stage a helper is called; all if it is called while the program is loaded."""
        stages = {stage for stage, calls in self.findings.calls.items() if calls[helper]}
        if self.session.loading_calls[helper] or not stages.issubset(self.findings.stages):
            return set(range(len(self.passed)))
        return {test for test, stage in enumerate(self.findings.stages) if stage in stages}

    def _unaffected(self, helper: int, called: set[int]) -> set[int]:
        """Return the tests among those `called` that pass whatever the helper returns."""
        tests = called
        for kind in UNRELATED:
            # Without a test left, further runs would tell nothing.
            tests = tests & self._passes(helper, kind) if tests else tests
        return tests

    def _explained(self, helper: int, kind: int, question: set[int], share: float) -> set[int]:
        """Return the tests that pass with a substitute, if it explains enough of those in question."""
        most = round((1 - share) * len(question), 6) // 1  # failures that leave it explained
        passing = self._passes(helper, kind, set() if most else question)
        return passing if len(question - passing) <= most else set()

    def _passes(self, helper: int, kind: int, required: Set[int] = frozenset()) -> set[int]:
        """Run the program with a mutation, once, up to the first failure of a `required` test.

        Returns:
            The tests that pass, or whose outcome there was no time to find: a program cannot gain by taking long.
        """
        if (helper, kind) not in self.runs:
            self.runs[helper, kind] = self._run_changed(helper, kind, required)
        return self.runs[helper, kind]

    def _run_changed(self, helper: int, kind: int, required: Set[int]) -> set[int]:
        session, now = self.session, time.monotonic()
        if now >= self.deadline:
            session.wall_decided = True
            return set(range(len(self.passed)))
        session.end = now + (self.deadline - now) / 2  # the rest is for later runs
        session.request["mutation"] = [helper, kind]
        by_clock, session.wall_decided = session.wall_decided, False
        expected = [test in required for test in range(len(self.passed))]
        findings = self.run(expected if required else [], self.hanging)
        unknown: Iterable[str] = ()
        if session.wall_decided:
            unknown = UNFINISHED
        elif session.failures >= session.limits["max_timeouts"]:
            unknown = ("not_run",)
        # The entry point itself is unchanged in these: our comparisons have taken the time.
        if channel.SAME <= kind < channel.ALTERED and kind != channel.DIRECT:
            unknown = UNFINISHED
        session.wall_decided |= by_clock
        return {
            test
            for test, (passes, status, *_) in enumerate(findings.outcomes())
            if passes or status in unknown
        }


def calls_in_passing(findings: Findings, tests: list[list[Any]], helpers: int) -> list[int]:
    """Count the calls of each of the helpers in stages in which one of the tests passes, or which have no test."""
    passing = {stage for stage, test in zip(findings.stages, tests, strict=True) if test[0]}
    calls = [0] * helpers
    for stage, counts in findings.calls.items():
        if stage in passing or stage not in findings.stages:
            calls = [old + new for old, new in zip(calls, counts, strict=True)]
    return calls
