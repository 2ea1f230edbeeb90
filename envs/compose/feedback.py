"""The feedback of the external modes: what an agent's prompt says about the last turn.

Tests are count and never shown, because their values would reveal the steps of other agents. An exception of the
agent's own function is reported by its builtin type only. Its text and line could depend on the result of another
agent's function. Count and type reveal a few bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llm_decpomdp.envs.compose.roles import EntryRole, Role
from llm_decpomdp.envs.compose.tasks import ComposeTask
from llm_decpomdp.envs.feedback.code_mode import (
    NOT_CALLED,
    UNKNOWN,
    USED,
    CodeMode,
    foreign_line,
    pass_signal,
    plain,
)
from llm_decpomdp.envs.sandbox import Outcome
from llm_decpomdp.envs.source_code.completion import Reading


@dataclass(frozen=True)
class ComposeAnalysis:
    """The analysis of a turn."""

    roles: tuple[Role, ...]
    readings: Mapping[str, Reading]
    """Each agent's completion after parsing."""
    tests: tuple[Outcome, ...]
    uses: Mapping[str, str]
    """Use of each helper's function, by agent, as in `coding.feedback`; empty if no test passes."""
    solved: bool = False
    """True for the maximum reward."""

    def code(self, agent: str) -> str:
        """Return the code of an agent that defines its function; otherwise empty."""
        reading = self.readings[agent]
        return reading.code if reading.defined else ""

    def works(self, agent: str) -> bool:
        """Check whether an agent's function is defined, returns, and parses."""
        reading = self.readings[agent]
        return reading.complete and not reading.problem

    @property
    def all_passed(self) -> bool:
        """True for the maximum reward: passed tests do not show whether each function does its own steps."""
        return self.solved


@dataclass(frozen=True)
class ComposeMode(CodeMode):
    """Writes the prompts. `sandbox_slice` decides which tests are count; none is shown."""

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
    "passed": pass_signal,
    "plain": plain,
}
