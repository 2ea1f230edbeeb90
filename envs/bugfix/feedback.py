"""The prompts of repairing a program: feedback about the bugs in the first prompt, and about the repair later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from llm_decpomdp.envs.bugfix.reward import RepairAnalysis
from llm_decpomdp.envs.bugfix.roles import FixerRole
from llm_decpomdp.envs.bugfix.tasks import PROGRAM, BugTask, run_unmodified
from llm_decpomdp.envs.feedback.code_mode import CodeMode, foreign_line
from llm_decpomdp.envs.sandbox import Outcome, Sandbox

Item = TypeVar("Item")


def level_feedback(analysis: RepairAnalysis, role: FixerRole) -> list[str]:
    """Write diagnostics of every level."""
    missing = ", ".join(f"`{name}`" for name in analysis.missing(role))
    state = f"{missing} MISSING (what was there stays)" if missing else "all of yours FOUND"
    lines = ["Static and execution diagnostics:", f"- Functions: {state}"]
    lines += [
        f"- Functions of {mate.agent}: {'some MISSING' if analysis.missing(mate) else 'all FOUND'}"
        for mate in analysis.roles
        if mate.agent != role.agent
    ]
    problem = analysis.work[role.agent].problem
    if problem is not None:
        place = f"SyntaxError at line {problem.line}, col {problem.column}"
        lines.append(f"- Syntax: ERROR ({place} of your code: {foreign_line(problem.message)})")
    else:
        lines.append(f"- Syntax: {'OK' if analysis.parses else 'ERROR (in code of a team-mate)'}")
    passed = sum(test.passed for test in analysis.tests)
    lines.append(f"- Tests: {passed}/{len(analysis.tests)} passed")
    return lines + _failures(analysis.tests, role.agent, "your code")


def _failures(tests: Sequence[Outcome], origin: str, whose: str) -> list[str]:
    """Write each test that failed, with the line of code that raised if it is of `origin`."""
    lines = []
    for test in tests:
        if not test.passed:
            place = f" (line {test.line} of {whose})" if test.origin == origin else ""
            # The case is an assert, or of unittest a name and the code.
            name, _, body = test.case.partition("\n")
            code = "".join(f"\n    {line}" for line in body.splitlines())
            lines.append(f"  Failed case: {name} -> {test.message}{place}{code}")
    return lines


def level_passed(analysis: RepairAnalysis, role: FixerRole) -> list[str]:
    """Write one line for each level: passed or not."""
    passed, total = sum(test.passed for test in analysis.tests), len(analysis.tests)
    return [
        "Signals:",
        f"- {'Not all of your functions found' if analysis.missing(role) else 'All your functions found'}",
        f"- {'Syntax correct' if analysis.parses else 'Syntax not correct'}",
        f"- {'Passed all tests' if passed == total else f'Passed {passed}/{total} tests'}",
    ]


REPAIR_FEEDBACK: dict[str, Callable[[RepairAnalysis, FixerRole], list[str]]] = {
    "level_feedback": level_feedback,
    "level_passed": level_passed,
}


@dataclass(frozen=True)
class RepairMode(CodeMode):
    """Tells, in the first prompts too, of the tests that the bugs fail before all others."""

    roles: Sequence[FixerRole]
    sandbox: Sandbox = field(kw_only=True)

    def first(self, task: BugTask) -> dict[str, str]:
        """Return the first prompt of each agent, with feedback about the program as they get it."""
        execution = run_unmodified(self.sandbox, task)
        tests = self.sanitize(self.visible_tests(task, execution.tests))
        passed = sum(test.passed for test in tests)
        count = f"Tests: {passed}/{len(tests)} passed"
        lines = {
            "level_feedback": [count, *_failures(tests, PROGRAM, "the program"), ""],
            "level_passed": [count, ""],
            "passed": [f"Signal: {'All' if passed == len(tests) else 'Not all'} tests passed", ""],
        }.get(self.name, [])
        return {role.agent: role.instructions(task, self.timing, lines) for role in self.roles}

    def visible_tests(self, task: BugTask, items: Sequence[Item]) -> tuple[Item, ...]:
        """Return the items of the tests that prompts may show, failing tests first."""
        before = run_unmodified(self.sandbox, task).tests
        order = sorted(range(len(before)), key=lambda number: before[number].passed)
        return self.options.visible_tests([items[number] for number in order])

    def public(self, task: BugTask) -> tuple[str, ...]:
        """Return the texts of a task that every prompt may contain."""
        return (task.prompt, task.buggy)
