"""Tests that do not end, told of by their tasks: each new program costs the whole time until a row is mended."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from llm_decpomdp.envs.sandbox import Execution
from llm_decpomdp.envs.sandbox.batch import ENDLESS

ENOUGH = 2
"""On the values of how many different programs a test may go on before its task is told of: one may be absurd."""

MARK = ENDLESS.partition("{")[0]
"""How the outcome of a test begins whose own code did not end; that of a program which does not end is another."""

logger = logging.getLogger(__name__)

_programs: dict[tuple[str, str], set[int]] = {}
"""By task and test, the programs so far, as hashes."""


class Tested(Protocol):
    """A task with tests."""

    @property
    def task_id(self) -> str:
        """Its id."""
        ...

    @property
    def test(self) -> str:
        """The text of its tests."""
        ...


def watch(task: Tested, completions: Mapping[str, str], execution: Execution) -> None:
    """Warn, once for each task, when its tests did not end on the values of `ENOUGH` programs.

    Args:
        task: The task.
        completions: The program, by agent id.
        execution: What became of it.
    """
    endless = next((test for test in execution.tests if test.message.startswith(MARK)), None)
    if endless is None:
        return
    programs = _programs.setdefault((task.task_id, task.test), set())
    if len(programs) >= ENOUGH:
        return
    programs.add(hash(frozenset(completions.items())))
    if len(programs) == ENOUGH:
        logger.warning(
            "task %r: %s, for %d different programs, and each new one will take as long; if the test loops "
            "whatever it is given, mend its row or leave it out: run llm-decpomdp audit, with --source for a file",
            *(task.task_id, endless.message.removeprefix("TimeoutError: "), ENOUGH),
        )
