"""The feedback of completing a class, which the external modes write about a turn.

| mode             | feedback                                                                                 |
|------------------|------------------------------------------------------------------------------------------|
| `code_feedback`  | the skeleton; syntax, time-outs, how many hidden tests passed, names of failing tests      |
| `level_feedback` | diagnostics: each own method, overlap, failing tests of those that `sandbox_slice` shows   |
| `level_passed`   | the same levels as passed or not                                                          |
| `passed`         | one signal: all levels passed, or not all                                                 |
| `plain`          | none                                                                                     |

`code_feedback` names tests and never shows one.
"""

from __future__ import annotations

from collections.abc import Callable

from llm_decpomdp.envs.classeval.reward import ClassAnalysis
from llm_decpomdp.envs.classeval.roles import ClassRole, skeleton_block
from llm_decpomdp.envs.datasets.classeval import case_id
from llm_decpomdp.envs.feedback.code_mode import foreign_line

MAX_NAMED = 5
"""Largest number of failing tests that `code_feedback` names."""


def level_feedback(analysis: ClassAnalysis, role: ClassRole) -> list[str]:
    """Write diagnostics of every level."""
    part = analysis.team[role.agent]
    lines = ["Static and execution diagnostics:"]
    lines += [_definition(analysis, role, name) for name in part.assigned]
    if part.foreign:
        names = ", ".join(sorted({f"`{piece.name}`" for piece in part.foreign}))
        lines.append(f"- Not yours to write: {names}")
    lines.append(_syntax(analysis, role))
    if overlaps := analysis.merged.overlaps:
        lines.append(f"- Overlap: {len(overlaps)} methods were written more than once")
    passed = sum(test.passed for test in analysis.tests)
    lines.append(f"- Tests: {passed}/{len(analysis.tests)} passed")
    for test in analysis.tests:
        if not test.passed:
            place = f" (line {test.line} of your code)" if test.origin == role.agent else ""
            case = test.case.replace("\n", "\n    ")
            lines.append(f"  Failed case: {case}\n    -> {test.message}{place}")
    return lines


def _definition(analysis: ClassAnalysis, role: ClassRole, name: str) -> str:
    if name in analysis.team[role.agent].written_methods:
        return f"- `{name}`: FOUND"
    problem = analysis.team[role.agent].broken.get(name)
    if problem is None:
        return f"- `{name}`: MISSING"
    place = f"line {problem.line}, col {problem.column} of it"
    return f"- `{name}`: SyntaxError at {place}: {foreign_line(problem.message)}"


def _syntax(analysis: ClassAnalysis, role: ClassRole) -> str:
    if analysis.parses:
        return "- Syntax: OK"
    return f"- Syntax: ERROR{'' if analysis.team[role.agent].broken else ' (not in your methods)'}"


def level_passed(analysis: ClassAnalysis, role: ClassRole) -> list[str]:
    """Write one line for each level: passed or not."""
    passed, total = sum(test.passed for test in analysis.tests), len(analysis.tests)
    summary = f"Passed {passed}/{total} tests"
    if passed in (0, total):
        summary = "Passed all tests" if passed else "No tests passed"
    complete = analysis.complete(role.agent)
    return [
        "Signals:",
        f"- {'All your methods found' if complete else 'Not all your methods found'}",
        f"- {'Syntax correct' if analysis.parses else 'Syntax not correct'}",
        f"- {'Methods overlap' if analysis.merged.overlaps else 'No overlap'}",
        f"- {summary}",
    ]


def code_feedback(analysis: ClassAnalysis, role: ClassRole) -> list[str]:
    """Write the skeleton and short diagnostics of the whole class."""
    lines = [
        "The class:",
        skeleton_block(analysis.task),
        "",
        "Diagnostics:",
        _syntax(analysis, role),
    ]
    part = analysis.team[role.agent]
    lines += [_definition(analysis, role, name) for name in part.assigned if name in part.broken]
    if any(test.status == "timeout" for test in analysis.tests):
        lines.append("- Some tests ran out of time")
    failing = [case_id(test.case) for test in analysis.tests if not test.passed]
    count = f"{len(analysis.tests) - len(failing)}/{len(analysis.tests)}"
    lines.append(f"- Hidden tests passed: {count}")
    if failing:
        more = f", +{len(failing) - MAX_NAMED} more" if len(failing) > MAX_NAMED else ""
        lines.append(f"- Failing: {', '.join(failing[:MAX_NAMED])}{more}")
    return lines


CLASS_FEEDBACK: dict[str, Callable[[ClassAnalysis, ClassRole], list[str]]] = {
    "code_feedback": code_feedback,
    "level_feedback": level_feedback,
    "level_passed": level_passed,
}
