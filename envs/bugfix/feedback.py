"""The feedback of the external modes about a repair, and about the program with its bugs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from llm_decpomdp.envs.bugfix.roles import FixerRole
from llm_decpomdp.envs.bugfix.tasks import PROGRAM, BugTask, ProgramRunner, Submission
from llm_decpomdp.envs.feedback.code_mode import CodeMode, foreign_line, pass_signal, plain
from llm_decpomdp.envs.sandbox import Outcome

Item = TypeVar("Item")


@dataclass(frozen=True)
class RepairAnalysis:
    """The analysis of a turn."""

    task: BugTask
    roles: Sequence[FixerRole]
    work: Mapping[str, Submission]
    tests: tuple[Outcome, ...]

    def code(self, agent: str) -> str:
        """Return an agent's own code; empty where it holds none of its functions."""
        return self.work[agent].code

    @property
    def parses(self) -> bool:
        """True if every agent's code parses."""
        return not any(part.problem for part in self.work.values())

    def missing(self, role: FixerRole) -> list[str]:
        """Return the functions that an agent should have submitted and did not, or not in code that parses."""
        submitted = self.work[role.agent].submitted
        return [name for name in role.owned_functions(self.task) if name not in submitted]

    @property
    def all_passed(self) -> bool:
        """True if everything is there, all parses and every shown test passes."""
        complete = not any(self.missing(role) for role in self.roles)
        return complete and self.parses and all(test.passed for test in self.tests)


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
    "passed": pass_signal,
    "plain": plain,
}


@dataclass(frozen=True)
class RepairMode(CodeMode):
    """Tells, in the first prompts too, of the tests that the bugs fail before all others."""

    roles: Sequence[FixerRole]
    runner: ProgramRunner = field(kw_only=True)

    def first(self, task: BugTask) -> dict[str, str]:
        """Return the first prompt of each agent, with feedback about the program as they get it."""
        tests = self.sanitize(self.visible_tests(task, self.runner.run_unmodified(task).tests))
        passed = sum(test.passed for test in tests)
        count = f"Tests: {passed}/{len(tests)} passed"
        lines = {
            "level_feedback": [count, *_failures(tests, PROGRAM, "the program"), ""],
            "level_passed": [count, ""],
            "passed": [f"Signal: {'All' if passed == len(tests) else 'Not all'} tests passed", ""],
        }.get(self.name, [])
        return {role.agent: role.instructions(task, lines) for role in self.roles}

    def visible_tests(self, task: BugTask, items: Sequence[Item]) -> tuple[Item, ...]:
        """Return the items of the tests that prompts may show, failing tests first."""
        before = self.runner.run_unmodified(task).tests
        order = sorted(range(len(before)), key=lambda number: before[number].passed)
        return self.options.visible_tests([items[number] for number in order])

    def public(self, task: BugTask) -> tuple[str, ...]:
        """Return the texts of a task that every prompt may contain."""
        return (task.prompt, task.buggy)
