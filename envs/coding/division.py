"""The division of labor in a joint program: which tests need the entry function, the helpers, and both.

It is decided by running the program with something trivial in place of one side, test by test
(`sandbox/worker/evaluator/division.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_decpomdp.envs.coding.roles import HELPER
from llm_decpomdp.envs.datasets.humaneval import CodeTask
from llm_decpomdp.envs.sandbox import Execution, Program, Sandbox

FULL_SHARE = 0.5
"""Share of the tests from which on a division is complete: one side alone may handle the others, as edge cases."""


@dataclass(frozen=True)
class Division:
    """What each side of a program adds, for each test."""

    passed: tuple[bool, ...]
    main_adds: tuple[bool, ...]
    """True where the test passes, and fails with a helper in place of the entry function."""
    helpers_add: tuple[tuple[bool, ...], ...]
    """For each helper, True where the test passes, and fails with every trivial function in the helper's place."""

    @classmethod
    def of(cls, execution: Execution) -> Division:
        """Return the division that a run with `Program.divide` has found."""
        passed = tuple(test.passed for test in execution.tests)
        nothing = (False,) * len(passed)
        helpers = execution.helpers_add or tuple(nothing for _ in execution.helper_calls)
        return cls(passed, execution.main_adds or nothing, helpers)

    def main_part(self) -> float:
        """Return the share of the passing tests to which the entry function adds something."""
        return sum(self.main_adds) / max(sum(self.passed), 1)

    def helper_part(self) -> float:
        """Return the share of the passing tests to which a helper adds something; the mean over helpers."""
        added = sum(map(sum, self.helpers_add))
        return added / max(sum(self.passed) * len(self.helpers_add), 1)

    def shared(self) -> float:
        """Return the share of all tests that pass by shared work; the mean over helpers."""
        pairs = [zip(self.main_adds, adds, strict=True) for adds in self.helpers_add]
        both = sum(main and helper for pair in pairs for main, helper in pair)
        return both / max(len(self.passed) * len(pairs), 1)

    def is_real(self) -> bool:
        """Check whether all tests pass, and enough of them by shared work."""
        return all(self.passed) and self.shared() >= FULL_SHARE


def measure_divisions(
    programs: Sequence[tuple[CodeTask, Mapping[str, str]]], sandbox: Sandbox
) -> list[Division]:
    """Measure the division of labor in programs of two agents, in parallel.

    Args:
        programs: Each task with the code of `aux_0` and `main_0`.
        sandbox: Where they run. Equal programs run once.
    """
    jobs = []
    for task, code in programs:
        # As in the joint program, sorted by id.
        segments = tuple((agent, code[agent]) for agent in sorted(code))
        helpers = (("aux_0", HELPER),)
        program = Program(segments, task.entry_point, task.preamble, helpers, divide=True)
        jobs.append((program, task.tests))
    return [Division.of(execution) for execution in sandbox.run_batch(jobs)]
