"""Warnings about tests that do not end: each new program costs the whole time limit until the row is mended."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from llm_decpomdp.envs.sandbox import Execution
from llm_decpomdp.envs.sandbox.batch import ENDLESS

MIN_PROGRAMS = 2
"""Different programs on whose values a test must not end before its task is named: one may be absurd."""

MARK = ENDLESS.partition("{")[0]
"""Beginning of the outcome of a test whose own code did not end; a program that does not end has another."""

logger = logging.getLogger(__name__)

_programs: dict[tuple[str, str], set[int]] = {}
"""Hashes of the programs so far, by task and test."""


class Tested(Protocol):
    """A task with tests."""

    @property
    def task_id(self) -> str:
        """The task's id."""
        ...

    @property
    def test(self) -> str:
        """The source of the task's tests."""
        ...


def watch(task: Tested, completions: Mapping[str, str], execution: Execution) -> None:
    """Warn, once for each task, when its tests did not end on the values of `MIN_PROGRAMS` programs.

    Args:
        task: The task.
        completions: The program, by agent id.
        execution: The verdict on it.
    """
    endless = next((test for test in execution.tests if test.message.startswith(MARK)), None)
    if endless is None:
        return
    programs = _programs.setdefault((task.task_id, task.test), set())
    if len(programs) >= MIN_PROGRAMS:
        return
    programs.add(hash(frozenset(completions.items())))
    if len(programs) == MIN_PROGRAMS:
        logger.warning(
            "task %r: %s, for %d different programs, and each new one will take as long; if the test loops "
            "whatever it is given, mend its row or leave it out: run llm-decpomdp audit, with --source for a file",
            *(task.task_id, endless.message.removeprefix("TimeoutError: "), MIN_PROGRAMS),
        )
