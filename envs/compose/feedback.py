"""The feedback of the external modes: what each agent is told of a turn, beside its own code.

Tests are counted and never shown, since their values would tell one agent another one's steps. Of the first
exception of the agent's own function its builtin type is told, and neither text nor line, which the function could
choose by what a team-mate's function returned. The count and the type say a few bits of that, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llm_decpomdp.envs.coding.feedback import NOT_CALLED, UNKNOWN, USED
from llm_decpomdp.envs.compose.roles import EntryRole, Role
from llm_decpomdp.envs.compose.tasks import ComposeTask
from llm_decpomdp.envs.feedback.code_mode import CodeMode, foreign_line, pass_signal, plain
from llm_decpomdp.envs.sandbox import Outcome
from llm_decpomdp.envs.source_code.completion import Reading


@dataclass(frozen=True)
class ComposeAnalysis:
    """The analysis of a turn."""

    roles: tuple[Role, ...]
    readings: Mapping[str, Reading]
    """Each agent's completion, as it was read."""
    tests: tuple[Outcome, ...]
    uses: Mapping[str, str]
    """Use of each helper's function, by agent, as in `coding.feedback`; empty if no test passes."""
    solved: bool = False
    """True for full marks."""

    def code(self, agent: str) -> str:
        """Return the code of an agent that defines its function; empty where it does not."""
        reading = self.readings[agent]
        return reading.code if reading.defined else ""

    def works(self, agent: str) -> bool:
        """Check whether an agent's function is there, returns, and parses."""
        reading = self.readings[agent]
        return reading.complete and not reading.problem

    @property
    def all_passed(self) -> bool:
        """True for full marks: tests alone do not show whether each function does its own steps."""
        return self.solved


@dataclass(frozen=True)
class ComposeMode(CodeMode):
    """Writes the prompts; whatever `sandbox_slice` says, tests are counted and exceptions named only."""

    def secrets(self, task: ComposeTask) -> list[str]:
        """Return the text of every test."""
        return list(task.tests.cases)


def level_feedback(analysis: ComposeAnalysis, role: Role) -> list[str]:
    """Write diagnostics: the own function and its errors, tests that pass, and the use of helpers."""
    reading = analysis.readings[role.agent]
    state = "found" if analysis.works(role.agent) else "missing, or it never returns"
    if reading.problem is not None:
        place = f"line {reading.problem.line}, col {reading.problem.column}"
        state = f"SyntaxError at {place}: {foreign_line(reading.problem.message)}"
    lines = ["Diagnostics:", f"- Your function: {state}", f"- Tests: {_count(analysis)} passed"]
    errors = [f"  {test.message}" for test in analysis.tests if test.origin == role.agent]
    return [*lines, *errors[:1], *_uses(analysis, role)]


def level_passed(analysis: ComposeAnalysis, role: Role) -> list[str]:
    """Write a line for each level: passed or not."""
    state = "OK" if analysis.works(role.agent) else "not OK"
    tests = "passed" if all(test.passed for test in analysis.tests) else "not all passed"
    return ["Signals:", f"- Your function: {state}", f"- Tests: {tests}", *_uses(analysis, role)]


def _count(analysis: ComposeAnalysis) -> str:
    return f"{sum(test.passed for test in analysis.tests)}/{len(analysis.tests)}"


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
