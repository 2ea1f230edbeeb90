"""What the external modes tell the agents about a repair."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from llm_decpomdp.envs.bugfix.initial_feedback import failure
from llm_decpomdp.envs.bugfix.roles import FixerRole
from llm_decpomdp.envs.bugfix.tasks import BugTask, Submission
from llm_decpomdp.envs.coding.feedback import passed, plain
from llm_decpomdp.envs.modes.foreign_text import foreign_line
from llm_decpomdp.episode import Outcome


@dataclass(frozen=True)
class RepairView:
    """What a mode may tell about one turn."""

    task: BugTask
    roles: Sequence[FixerRole]
    work: Mapping[str, Submission]
    tests: tuple[Outcome, ...]
    """The outcomes that `sandbox_slice` lets through."""

    @classmethod
    def of(
        cls,
        task: BugTask,
        roles: Sequence[FixerRole],
        completions: Mapping[str, str],
        tests: tuple[Outcome, ...],
        analysis: Mapping[str, str],
    ) -> RepairView:
        """The view of a turn."""
        work = {role.agent: role.read(task, completions[role.agent]) for role in roles}
        return cls(task, roles, work, tests)

    def code(self, agent: str) -> str:
        """An agent's own code; empty where it holds none of its functions."""
        return self.work[agent].code

    @property
    def parses(self) -> bool:
        """Whether everybody's code parses."""
        return not any(one.problem for one in self.work.values())

    def missing(self, role: FixerRole) -> list[str]:
        """The functions that an agent should have submitted and did not, or not in code that parses."""
        submitted = self.work[role.agent].submitted
        return [name for name in role.owned(self.task) if name not in submitted]

    @property
    def passed(self) -> bool:
        """Whether everything is there, all parses and every shown test passes."""
        complete = not any(self.missing(role) for role in self.roles)
        return complete and self.parses and all(test.passed for test in self.tests)


def level_feedback(view: RepairView, role: FixerRole) -> list[str]:
    """Diagnostics of every level."""
    lines = ["Static and execution diagnostics:", f"- Functions: {_functions(view, role)}"]
    lines += [
        f"- Functions of {other.agent}: {'all FOUND' if not view.missing(other) else 'some MISSING'}"
        for other in view.roles
        if other is not role
    ]
    problem = view.work[role.agent].problem
    if problem is not None:
        place = f"SyntaxError at line {problem.line}, col {problem.column}"
        lines.append(f"- Syntax: ERROR ({place} of your code: {foreign_line(problem.message)})")
    else:
        lines.append(f"- Syntax: {'OK' if view.parses else 'ERROR (in code of a team-mate)'}")
    lines.append(f"- Tests: {sum(test.passed for test in view.tests)}/{len(view.tests)} passed")
    return lines + [failure(t, role.agent, "your code") for t in view.tests if not t.passed]


def _functions(view: RepairView, role: FixerRole) -> str:
    missing = view.missing(role)
    if not missing:
        return "all of yours FOUND"
    return f"{', '.join(f'`{name}`' for name in missing)} MISSING (what was there stays)"


def level_passed(view: RepairView, role: FixerRole) -> list[str]:
    """Whether each level is passed."""
    passed, total = sum(test.passed for test in view.tests), len(view.tests)
    return [
        "Signals:",
        f"- {'Not all of your functions found' if view.missing(role) else 'All your functions found'}",
        f"- {'Syntax correct' if view.parses else 'Syntax not correct'}",
        f"- {'Passed all tests' if passed == total else f'Passed {passed}/{total} tests'}",
    ]


REPAIR_SIGNALS: dict[str, Callable[[RepairView, FixerRole], list[str]]] = {
    "level_feedback": level_feedback,
    "level_passed": level_passed,
    "passed": passed,
    "plain": plain,
}
