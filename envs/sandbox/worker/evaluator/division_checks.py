"""What each side of a program with helpers adds, test by test (`Program.divide`)."""

from __future__ import annotations

from collections.abc import Iterable, Set

from llm_decpomdp.envs.sandbox.worker.evaluator.helpers import UNFINISHED, HelperChecks
from llm_decpomdp.envs.sandbox.worker.protocol import channel

SHARE = 0.9
"""Share of the tests in question that must pass with a substitute; all of them where it is a choice."""

# A change may make a program loop in some tests, and each restart costs the time of a call.
MAX_RESTARTS = 3

CONSTANTS = (channel.CONSTANT, channel.OTHER_CONSTANT)
UNRELATED = (channel.ALTERED, channel.EMPTY, *CONSTANTS)
"""Kinds of results that have nothing to do with the helper's arguments."""


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
        for kind in range(channel.DERIVED, channel.ANY) if apart else [channel.ANY]:
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
        session = self.session
        expected = [test in required for test in range(len(self.passed))]
        mutant_run = self.run_mutant(helper, kind, expected if required else [])
        if mutant_run is None:
            return set(range(len(self.passed)))
        findings, timeout = mutant_run
        unknown: Iterable[str] = ()
        if timeout:
            unknown = UNFINISHED
        elif session.failures >= session.limits["max_timeouts"]:
            unknown = ("not_run",)
        # The entry point itself is unchanged in these: our comparisons have taken the time.
        if kind in channel.ENTRY_POINT_RESULTS and kind != channel.DIRECT:
            unknown = UNFINISHED
        return {
            test
            for test, (passes, status, *_) in enumerate(findings.outcomes())
            if passes or status in unknown
        }
