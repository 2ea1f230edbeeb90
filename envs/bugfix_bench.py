"""Puts a program together of the agents' functions and its own, and runs it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from llm_decpomdp.envs.bugfix_tasks import BugTask
from llm_decpomdp.envs.program_text import excerpt, functions
from llm_decpomdp.envs.sandbox import Execution, Program, Sandbox, Tests

PROGRAM = "program"
"""The origin of functions that no agent submitted."""


@dataclass(frozen=True)
class Bench:
    """Where programs run. The sandbox remembers its verdicts, so asking again costs little."""

    sandbox: Sandbox

    def before(self, task: BugTask) -> Execution:
        """What becomes of the program as the agents get it."""
        return self.run(task, {}, ())

    def run(self, task: BugTask, parts: Mapping[str, str], submitted: Collection[str]) -> Execution:
        """What becomes of the program with the agents' parts; functions that nobody submitted stay."""
        kept = set(task.functions) - set(submitted)
        program = joint(task.buggy, task.entry_point, task.functions, kept, parts)
        return self.sandbox.run(program, self.tests(task))

    def tests(self, task: BugTask) -> Tests:
        """The task's tests, each to be reached as often as by the program without bugs."""
        program = joint(task.correct, task.entry_point, task.functions, task.functions)
        return strict(self.sandbox, program, task.tests)


def joint(
    code: str,
    entry_point: str,
    repaired: Collection[str],
    kept: Collection[str],
    parts: Mapping[str, str] | None = None,
) -> Program:
    """What is nobody's comes first, then the functions that are kept, then the agents' parts.

    Args:
        code: The program.
        entry_point: The function that its tests call.
        repaired: The functions that are somebody's.
        kept: Those of them that nobody submitted.
        parts: Code by agent.
    """
    segments = [(PROGRAM, excerpt(code, kept, rest=False)), *(parts or {}).items()]
    preamble = excerpt(code, set(functions(code)) - set(repaired), rest=True)
    return Program(tuple((who, part) for who, part in segments if part), entry_point, preamble)


def strict(sandbox: Sandbox, correct: Program, tests: Tests) -> Tests:
    """The tests, each to be reached as often as by a correct program.

    Otherwise a program that returns nothing would pass `for item in candidate(x): assert ...`.
    """
    if not tests.vary:
        return tests
    execution = sandbox.run(correct, tests)
    pairs = zip(execution.reached, execution.tests, strict=True)
    return tests.at_least([times if test.passed else 0 for times, test in pairs])
