"""Programs with bugs, as tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from llm_decpomdp.envs.bugfix.methods import KnownClass, known_class
from llm_decpomdp.envs.bugfix.pieces import instrumented, pieces, repairable, whole
from llm_decpomdp.envs.datasets.known_issues import KNOWN_ISSUES
from llm_decpomdp.envs.datasets.rows import Row
from llm_decpomdp.envs.sandbox import Program, Tests
from llm_decpomdp.envs.source_code.functions import Statements, distance, statements, tokens
from llm_decpomdp.tasks import Task


@dataclass(frozen=True)
class BugTask(Task):
    """A program to repair, and the tests that judge it; `prompt` says what its entry point shall do.

    Where that is a class, `functions` and the other properties are about its methods.
    """

    correct: str
    """The program without bugs."""
    buggy: str
    """The program as the agents get it."""
    test: str
    """Text of a module with a function `check(candidate)`, or with unittest classes about a class."""
    entry_point: str
    """The function or class that the tests call."""
    bugs: tuple[str, ...]
    """Changes of the program: keys of `Mutation`, or the kind that the data names."""

    @cached_property
    def known(self) -> KnownClass | None:
        """The entry point if it is a class."""
        return known_class(self.buggy, self.entry_point)

    @property
    def is_class(self) -> bool:
        """True if the entry point is a class."""
        return self.known is not None

    @cached_property
    def statements(self) -> Statements:
        """The program's statements, to which agents add."""
        return statements(self.buggy)

    @cached_property
    def tests(self) -> Tests:
        """The instrumented test."""
        return instrumented(self.buggy, self.test, self.entry_point)

    @cached_property
    def program(self) -> Program:
        """The program as the agents get it, to be run."""
        return whole(self.buggy, self.entry_point, self.functions)

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """The functions of the program that can be repaired, in order."""
        return repairable(self.buggy, self.test, self.entry_point)

    @cached_property
    def given(self) -> Mapping[str, str]:
        """The functions' text as the agents get it."""
        return pieces(self.buggy, self.entry_point)

    @cached_property
    def wanted(self) -> Mapping[str, str]:
        """The functions' text without bugs."""
        return pieces(self.correct, self.entry_point)

    @cached_property
    def faulty(self) -> tuple[str, ...]:
        """The functions that hold bugs."""
        return tuple(n for n in self.functions if self.given[n] != self.wanted[n])

    @cached_property
    def need(self) -> int:
        """The size of the smallest known repair, in tokens: undoing the changes."""
        return sum(distance(self.given[name], self.wanted[name]) for name in self.faulty)

    @cached_property
    def size(self) -> int:
        """The size of the functions that hold bugs, in tokens."""
        return sum(len(tokens(self.given[name])) for name in self.faulty)


def bug_task(index: int, row: Row) -> BugTask:
    """Make a task of a row.

    Its fields are `task_id`, `prompt`, `correct`, `buggy`, `test`, `entry_point`, `bugs` and `problem`: the id of
    the problem that the program solves, under which its known issues are listed.
    """
    return BugTask(
        task_id=row["task_id"],
        index=index,
        prompt=row["prompt"],
        correct=row["correct"],
        buggy=row["buggy"],
        test=row["test"],
        entry_point=row["entry_point"],
        bugs=tuple(row["bugs"]),
        known_issue=KNOWN_ISSUES.get(row["problem"]),
    )
