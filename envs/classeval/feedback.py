"""What the external modes tell each agent about a turn of completing a class.

| mode             | signals                                                                                  |
|------------------|------------------------------------------------------------------------------------------|
| `code_feedback`  | the skeleton; syntax, time-outs, how many hidden tests passed, names of failing tests      |
| `level_feedback` | diagnostics: each own method, overlap, failing tests of those that `sandbox_slice` shows   |
| `level_passed`   | the same levels as passed or not                                                          |
| `passed`         | one signal: all levels passed, or not all                                                 |
| `plain`          | none                                                                                     |

`code_feedback` names tests and never shows one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llm_decpomdp.envs.classeval.roles import ClassRole, skeleton_block
from llm_decpomdp.envs.classeval.tasks import ClassTask
from llm_decpomdp.envs.classeval.unit_tests import case_id
from llm_decpomdp.envs.coding.feedback import passed, plain
from llm_decpomdp.envs.modes.foreign_text import foreign_line
from llm_decpomdp.envs.programs.classes.merge import Contribution, Merged, merge
from llm_decpomdp.envs.programs.completion import parsed
from llm_decpomdp.envs.programs.parsing import SyntaxProblem
from llm_decpomdp.episode import Outcome

MAX_NAMED = 5
"""Most failing tests that `code_feedback` names."""


@dataclass(frozen=True)
class ClassView:
    """What a mode may tell about one turn."""

    task: ClassTask
    team: Mapping[str, Contribution]
    broken: Mapping[str, Mapping[str, SyntaxProblem]]
    """For each agent its methods that do not parse."""
    merged: Merged
    tests: tuple[Outcome, ...]
    """The outcomes that may be told."""

    @classmethod
    def of(
        cls,
        task: ClassTask,
        roles: tuple[ClassRole, ...],
        completions: Mapping[str, str],
        tests: tuple[Outcome, ...],
        analysis: Mapping[str, str],
    ) -> ClassView:
        """The view of a turn."""
        team = {role.agent: role.read(task, completions[role.agent]) for role in roles}
        broken = {role.agent: role.broken(task, completions[role.agent]) for role in roles}
        return cls(task, team, broken, merge(task.outline, tuple(team.values())), tests)

    def code(self, agent: str) -> str:
        """The agent's own methods; empty where it wrote none."""
        return self.team[agent].code

    def complete(self, agent: str) -> bool:
        """Whether an agent wrote all methods that it was asked for."""
        one = self.team[agent]
        return len(one.written) == len(one.assigned)

    @property
    def parses(self) -> bool:
        """Whether nobody's method is broken and the class compiles."""
        return not any(self.broken.values()) and parsed(self.merged.code) is not None

    @property
    def passed(self) -> bool:
        """Whether every method is written, once, all parses, and every test that may be told passes."""
        written = all(self.complete(agent) for agent in self.team)
        tests = bool(self.tests) and all(test.passed for test in self.tests)
        return written and self.parses and tests and not self.merged.overlaps


def level_feedback(view: ClassView, role: ClassRole) -> list[str]:
    """Diagnostics of every level."""
    one = view.team[role.agent]
    lines = ["Static and execution diagnostics:"]
    lines += [_definition(view, role, name) for name in one.assigned]
    if one.foreign:
        named = ", ".join(sorted({f"`{piece.name}`" for piece in one.foreign}))
        lines.append(f"- Not yours to write: {named}")
    lines.append(_syntax(view, role))
    if view.merged.overlaps:
        lines.append(f"- Overlap: {len(view.merged.overlaps)} methods were written more than once")
    lines.append(f"- Tests: {sum(t.passed for t in view.tests)}/{len(view.tests)} passed")
    return lines + [_failure(test, role) for test in view.tests if not test.passed]


def _definition(view: ClassView, role: ClassRole, name: str) -> str:
    if name in view.team[role.agent].written:
        return f"- `{name}`: FOUND"
    problem = view.broken[role.agent].get(name)
    if problem is None:
        return f"- `{name}`: MISSING"
    place = f"line {problem.line}, col {problem.column} of it"
    return f"- `{name}`: SyntaxError at {place}: {foreign_line(problem.message)}"


def _syntax(view: ClassView, role: ClassRole) -> str:
    if view.parses:
        return "- Syntax: OK"
    return f"- Syntax: ERROR{'' if view.broken[role.agent] else ' (not in your methods)'}"


def _failure(test: Outcome, role: ClassRole) -> str:
    place = f" (line {test.line} of your code)" if test.origin == role.agent else ""
    case = test.case.replace("\n", "\n    ")
    return f"  Failed case: {case}\n    -> {test.message}{place}"


def level_passed(view: ClassView, role: ClassRole) -> list[str]:
    """Whether each level is passed."""
    passed, total = sum(test.passed for test in view.tests), len(view.tests)
    summary = f"Passed {passed}/{total} tests"
    if passed in (0, total):
        summary = "Passed all tests" if passed else "No tests passed"
    found = view.complete(role.agent)
    return [
        "Signals:",
        f"- {'All your methods found' if found else 'Not all your methods found'}",
        f"- {'Syntax correct' if view.parses else 'Syntax not correct'}",
        f"- {'Methods overlap' if view.merged.overlaps else 'No overlap'}",
        f"- {summary}",
    ]


def code_feedback(view: ClassView, role: ClassRole) -> list[str]:
    """The skeleton and short diagnostics of the whole class."""
    lines = ["The class:", skeleton_block(view.task), "", "Diagnostics:", _syntax(view, role)]
    problems = view.broken[role.agent]
    lines += [
        _definition(view, role, name) for name in view.team[role.agent].assigned if name in problems
    ]
    if any(test.status == "timeout" for test in view.tests):
        lines.append("- Some tests ran out of time")
    failing = [case_id(test.case) for test in view.tests if not test.passed]
    count = f"{len(view.tests) - len(failing)}/{len(view.tests)}"
    lines.append(f"- Hidden tests passed: {count}")
    if failing:
        more = f", +{len(failing) - MAX_NAMED} more" if len(failing) > MAX_NAMED else ""
        lines.append(f"- Failing: {', '.join(failing[:MAX_NAMED])}{more}")
    return lines


CLASS_SIGNALS: dict[str, Callable[[ClassView, ClassRole], list[str]]] = {
    "code_feedback": code_feedback,
    "level_feedback": level_feedback,
    "level_passed": level_passed,
    "passed": passed,
    "plain": plain,
}
