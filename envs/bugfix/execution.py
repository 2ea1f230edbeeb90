"""Runs programs with the agents' functions or methods in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from llm_decpomdp.envs.bugfix.methods import merged
from llm_decpomdp.envs.bugfix.pieces import PROGRAM, joint, strict, whole
from llm_decpomdp.envs.bugfix.tasks import BugTask, Submission
from llm_decpomdp.envs.programs.classes.merge import Merged
from llm_decpomdp.envs.sandbox import Execution, Program, Sandbox, Tests
from llm_decpomdp.episode import Outcome


@dataclass(frozen=True)
class Bench:
    """Where programs run. The sandbox remembers its verdicts, so asking again costs little."""

    sandbox: Sandbox

    def before(self, task: BugTask) -> Execution:
        """What becomes of the program as the agents get it."""
        program = whole(task.buggy, task.entry_point, task.functions)
        return self.sandbox.run(program, self.tests(task))

    def run(self, task: BugTask, work: Mapping[str, Submission]) -> Execution:
        """What becomes of the program with what the agents submitted; what nobody submitted stays."""
        submitted = {name for one in work.values() for name in one.submitted}
        kept = set(task.functions) - submitted
        parts = {agent: one for agent, one in work.items() if one.submitted}
        if task.is_class:
            texts = {agent: (one.code, list(one.submitted)) for agent, one in parts.items()}
            one_class = merged(task.buggy, task.entry_point, kept, texts)
            program = Program(((PROGRAM, one_class.code),), task.entry_point)
            found = self.sandbox.run(program, self.tests(task))
            return _traced(found, one_class)
        codes = {agent: one.code for agent, one in parts.items()}
        program = joint(task.buggy, task.entry_point, task.functions, kept, codes)
        return self.sandbox.run(program, self.tests(task))

    def tests(self, task: BugTask) -> Tests:
        """The task's tests, each to be reached as often as by the program without bugs."""
        correct = whole(task.correct, task.entry_point, task.functions)
        return strict(self.sandbox, correct, task.tests)


def _traced(found: Execution, one_class: Merged) -> Execution:
    """An execution whose lines count in the code of the agents that wrote them."""

    def traced(outcome: Outcome) -> Outcome:
        place = one_class.place(outcome.line) if outcome.origin == PROGRAM else None
        agent, line = place or ("", 0)
        return replace(outcome, origin=agent, line=line)

    error = traced(found.error) if found.error is not None else None
    return replace(found, tests=tuple(map(traced, found.tests)), error=error)
