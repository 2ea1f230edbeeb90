"""The feedback of composition, and the mode that writes its prompts.

Tests are counted and never shown, because their values would reveal the steps of other agents. An exception of the
agent's own function is reported by its builtin type only. Its text and line could depend on the result of another
agent's function. Count and type reveal a few bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llm_decpomdp.envs.compose.reward import ComposeAnalysis
from llm_decpomdp.envs.compose.roles import EntryRole, Role
from llm_decpomdp.envs.compose.tasks import ComposeTask
from llm_decpomdp.envs.feedback.code_mode import CodeMode, foreign_line
from llm_decpomdp.envs.program_reward import NOT_CALLED, UNKNOWN, USED


@dataclass(frozen=True)
class ComposeMode(CodeMode):
    """Writes the prompts. `sandbox_slice` decides which tests are counted; none is shown."""

    @property
    def interchangeable(self) -> tuple[tuple[str, ...], ...]:
        """The possible names of each helper, where the convention leaves a choice: all names are equally good."""
        names = (helper.names for role in self.roles for helper in getattr(role, "helpers", ()))
        return tuple(group for group in names if len(group) > 1)

    def secrets(self, task: ComposeTask) -> list[str]:
        """Return the text of every test."""
        return list(task.tests.cases)


def level_feedback(analysis: ComposeAnalysis, role: Role) -> list[str]:
    """Write diagnostics: the agent's function and its errors, passed tests, and the use of helpers."""
    reading = analysis.readings[role.agent]
    state = "found" if analysis.works(role.agent) else "missing, or it never returns"
    if reading.problem is not None:
        place = f"line {reading.problem.line}, col {reading.problem.column}"
        state = f"SyntaxError at {place}: {foreign_line(reading.problem.message)}"
    passed = sum(test.passed for test in analysis.tests)
    count = f"- Tests: {passed}/{len(analysis.tests)} passed"
    lines = ["Diagnostics:", f"- Your function: {state}", count]
    errors = [f"  {test.message}" for test in analysis.tests if test.origin == role.agent]
    # Only the first error: each type reveals something about a teammate's results.
    return [*lines, *errors[:1], *_uses(analysis, role)]


def level_passed(analysis: ComposeAnalysis, role: Role) -> list[str]:
    """Write a line for each level: passed or not."""
    state = "OK" if analysis.works(role.agent) else "not OK"
    tests = "passed" if all(test.passed for test in analysis.tests) else "not all passed"
    return ["Signals:", f"- Your function: {state}", f"- Tests: {tests}", *_uses(analysis, role)]


def _uses(analysis: ComposeAnalysis, role: Role) -> list[str]:
    if not isinstance(role, EntryRole):
        return []
    words = {
        USED: "called, and its result matters",
        NOT_CALLED: "not called in a test that passes",
        UNKNOWN: "unknown, as no test passes",
    }
    uses = [(mate, analysis.uses.get(mate.agent, UNKNOWN)) for mate in role.helpers]
    return [
        f"- Use of {mate.label}: {words.get(use, 'called, but its result does not matter')}"
        for mate, use in uses
    ]


FEEDBACK: dict[str, Callable[[ComposeAnalysis, Role], list[str]]] = {
    "level_feedback": level_feedback,
    "level_passed": level_passed,
}
