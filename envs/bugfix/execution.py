"""Runs programs with the agents' functions or methods in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from llm_decpomdp.envs.bugfix.methods import Submission
from llm_decpomdp.envs.bugfix.pieces import PROGRAM, joint, strict, whole
from llm_decpomdp.envs.bugfix.tasks import BugTask
from llm_decpomdp.envs.sandbox import Execution, Outcome, Program, Sandbox, Tests
from llm_decpomdp.envs.source_code.classes.merge import Merged


@dataclass(frozen=True)
class Runner:
    """Runs programs. The sandbox remembers its verdicts, so asking again costs little."""

    sandbox: Sandbox

    def before(self, task: BugTask) -> Execution:
        """Run the program as the agents get it."""
        return self.sandbox.run(task.program, self.tests(task))

    def run(self, task: BugTask, work: Mapping[str, Submission]) -> Execution:
        """Run the program with the agents' submissions; functions that nobody submitted stay."""
        kept = set(task.functions).difference(*(part.submitted for part in work.values()))
        if task.known is not None:
            parts = [part.contribution for part in work.values() if part.submitted]
            merged = task.known.merged(kept, filter(None, parts))
            program = Program(((PROGRAM, merged.code),), task.entry_point)
            return _traced(self.sandbox.run(program, self.tests(task)), merged)
        codes = {agent: part.code for agent, part in work.items() if part.submitted}
        program = joint(task.buggy, task.entry_point, task.functions, kept, codes)
        return self.sandbox.run(program, self.tests(task))

    def tests(self, task: BugTask) -> Tests:
        """Return the task's tests, each to be reached as often as by the program without bugs."""
        if not task.tests.vary:
            return task.tests
        correct = whole(task.correct, task.entry_point, task.functions)
        return strict(self.sandbox, correct, task.tests)


def _traced(execution: Execution, merged: Merged) -> Execution:
    """Return an execution whose lines count in the code of the agents that wrote them."""

    def traced(outcome: Outcome) -> Outcome:
        place = merged.place(outcome.line) if outcome.origin == PROGRAM else None
        agent, line = place or ("", 0)
        return replace(outcome, origin=agent, line=line)

    error = traced(execution.error) if execution.error is not None else None
    return replace(execution, tests=tuple(map(traced, execution.tests)), error=error)
