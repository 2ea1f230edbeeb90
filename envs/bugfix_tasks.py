"""Programs with bugs, as tasks."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache

from llm_decpomdp.envs.code import parsed
from llm_decpomdp.envs.program_text import (
    distance,
    function_text,
    functions,
    tokens,
)
from llm_decpomdp.envs.sandbox import Tests, instrument
from llm_decpomdp.envs.sandbox.analysis import names
from llm_decpomdp.envs.sources import BadRow, Row
from llm_decpomdp.tasks import Task


@dataclass(frozen=True)
class BugTask(Task):
    """A program to repair, and the tests that judge it; `prompt` says what its entry function shall do."""

    correct: str
    """The program without bugs."""
    buggy: str
    """The program as the agents get it."""
    test: str
    """Text of a module with a function `check(candidate)`."""
    entry_point: str
    """The function that the tests call."""
    bugs: tuple[str, ...]
    """What was done to the program: keys of `Mutation`, or the kind that the data names."""

    @property
    def tests(self) -> Tests:
        """The instrumented test."""
        return instrument(self.test, self.entry_point)

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of the program that can be repaired, in order."""
        return repairable(self.buggy, self.test, self.entry_point)

    @property
    def faulty(self) -> tuple[str, ...]:
        """Those of them that hold bugs."""
        return tuple(
            name
            for name in self.functions
            if function_text(self.buggy, name) != function_text(self.correct, name)
        )

    @property
    def need(self) -> int:
        """The size of the smallest known repair, in tokens: undoing what was done."""
        texts = (
            (function_text(self.buggy, n), function_text(self.correct, n)) for n in self.faulty
        )
        return sum(distance(buggy, correct) for buggy, correct in texts)

    @property
    def size(self) -> int:
        """The size of the functions that hold bugs, in tokens."""
        return sum(len(tokens(function_text(self.buggy, name))) for name in self.faulty)


@lru_cache(maxsize=4096)
def repairable(code: str, test: str, entry_point: str) -> tuple[str, ...]:
    """The top-level functions of a program, in order, but for those that its tests rely on.

    The tests of HumanEval/32, for one, call the `poly` that the prompt gives.
    """
    named = names(parsed(test) or ast.Module([], [])) - {entry_point}
    return tuple(name for name in functions(code) if name not in named)


def bug_task(index: int, row: Row) -> BugTask:
    """A task of a row with `task_id`, `prompt`, `correct`, `buggy`, `test`, `entry_point` and `bugs`."""
    return BugTask(
        task_id=row["task_id"],
        index=index,
        prompt=row["prompt"],
        correct=row["correct"],
        buggy=row["buggy"],
        test=row["test"],
        entry_point=row["entry_point"],
        bugs=tuple(row["bugs"]),
    )


def instrumented(test: str, entry_point: str) -> Tests:
    """The instrumented test of a row.

    Raises:
        BadRow: If it does not parse.
    """
    try:
        return instrument(test, entry_point)
    except ValueError as error:
        raise BadRow(f"field 'test': {error}") from None
