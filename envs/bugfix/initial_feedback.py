"""Which tests of a buggy program agents may know of, and what they are told at the start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from llm_decpomdp.envs.bugfix.execution import Bench
from llm_decpomdp.envs.bugfix.pieces import PROGRAM
from llm_decpomdp.envs.bugfix.tasks import BugTask
from llm_decpomdp.envs.modes.code_mode import Composition
from llm_decpomdp.envs.modes.foreign_text import told
from llm_decpomdp.episode import Outcome, Turn

Item = TypeVar("Item")


@dataclass(frozen=True)
class Briefing:
    """What the first prompts say of the tests: as much as the mode will say later."""

    bench: Bench
    mode: str
    sandbox_slice: int
    """n > 0 the first n tests, n < 0 the last -n, 0 all; those that the bugs fail come first."""
    exception_text: bool = True

    def shown(self, task: BugTask, items: Sequence[Item]) -> tuple[Item, ...]:
        """The tests that may be shown, or what belongs to them."""
        before = self.bench.before(task).tests
        order = sorted(range(len(before)), key=lambda number: before[number].passed)
        count = self.sandbox_slice
        chosen = order[count:] if count < 0 else order[: count or None]
        return tuple(items[number] for number in chosen)

    def lines(self, task: BugTask) -> list[str]:
        """What the tests say of the program, and an empty line; nothing in modes that say nothing of them."""
        before = self.bench.before(task).tests
        tests = self.shown(task, [told(test, self.exception_text) for test in before])
        passed = sum(test.passed for test in tests)
        if self.mode == "level_feedback":
            failed = [failure(test, PROGRAM, "the program") for test in tests if not test.passed]
            return [f"Tests: {passed}/{len(tests)} passed", *failed, ""]
        if self.mode == "level_passed":
            return [f"Tests: {passed}/{len(tests)} passed", ""]
        if self.mode == "passed":
            return [f"Signal: {'All' if passed == len(tests) else 'Not all'} tests passed", ""]
        return []


def failure(test: Outcome, origin: str, whose: str) -> str:
    """A line about a test that failed, with the line of code that raised if it is of `origin`."""
    place = f" (line {test.line} of {whose})" if test.origin == origin else ""
    name, _, body = test.case.partition("\n")  # of unittest, a name and the code; else an assert
    lines = "".join(f"\n    {line}" for line in body.splitlines())
    return f"  Failed case: {name} -> {test.message}{place}{lines}"


@dataclass(frozen=True)
class FailingFirst(Composition):
    """Later prompts that speak of the same tests as the first one."""

    briefing: Briefing = field(kw_only=True)

    def view(self, task: BugTask, turn: Turn) -> object:
        """What the signals are made of."""
        tests = self.briefing.shown(task, turn.verdict.tests)
        return self.look(task, self.roles, turn.completions, tests, turn.verdict.analysis)

    def secrets(self, task: BugTask) -> list[str]:
        """Texts of the tests that no prompt may contain."""
        cases = task.tests.cases
        public = (task.prompt, task.buggy, *self.briefing.shown(task, cases))
        return [case for case in cases if not any(case in text for text in public)]
