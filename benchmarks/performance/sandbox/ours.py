"""This package's sandbox on the same programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llm_decpomdp.envs.coding.humaneval import code_task
from llm_decpomdp.envs.sandbox import Execution, Program, Sandbox, Tests, instrument


def jobs(programs: Sequence[Mapping[str, str]], split: bool = True) -> list[tuple[Program, Tests]]:
    """Each program as an environment would run it.

    Args:
        programs: Rows of HumanEval.
        split: Whether the tests run outside the program's process.
    """
    tasks = [code_task(index, program) for index, program in enumerate(programs)]
    return [
        (
            Program(
                segments=(("main_0", task.references["main_0"]),),
                entry_point=task.entry_point,
                preamble=task.preamble,
            ),
            instrument(task.test, task.entry_point, split),
        )
        for task in tasks
    ]


def passes(execution: Execution) -> bool:
    """Whether the program was loaded, there are tests, and all of them pass."""
    tests = execution.tests
    return execution.error is None and bool(tests) and all(test.passed for test in tests)


class Ours:
    """`Sandbox.run_batch` with every protection that the machine offers; no verdict is remembered."""

    def __init__(
        self, programs: Sequence[Mapping[str, str]], workers: int, split: bool = True
    ) -> None:
        self.jobs = jobs(programs, split)
        self.sandbox = Sandbox(workers=workers, cache_size=0)

    def run(self, indices: Sequence[int]) -> list[bool]:
        executions = self.sandbox.run_batch([self.jobs[index] for index in indices])
        return [passes(execution) for execution in executions]

    def close(self) -> None:
        self.sandbox.close()
