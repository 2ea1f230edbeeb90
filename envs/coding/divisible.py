"""The tasks of `-v1`: rows for which a division is known that needs both sides.

`envs/data/divisions.jsonl` has a row for each task of the known data: the share of its tests that are shared work
under its best known division, and where that comes from. `reference` is the data's own division, and `extraction`
one that function extraction finds in its solution. Those of `ours` were written here, because the problems of
CoopHumanEval have no solutions. `python -m tools.quality.divisions` writes the table. A row of a user's file that
is not listed there is measured, if it has the columns `aux` and `main`.
"""

from __future__ import annotations

import functools
import logging
import os
from dataclasses import replace

from llm_decpomdp.envs.coding.division import FULL_SHARE, measure_divisions
from llm_decpomdp.envs.datasets.humaneval import CodeTask
from llm_decpomdp.envs.datasets.loading import Dataset, Row, bundled_rows, load
from llm_decpomdp.envs.sandbox import Sandbox
from llm_decpomdp.interfaces import TaskSet

logger = logging.getLogger(__name__)

UNKNOWN = "no division of it is known; give the row the columns aux and main"


@functools.cache
def known_divisions(name: str) -> dict[str, Row]:
    """Return the rows of the table about a data set, by task."""
    rows = bundled_rows("divisions.jsonl")
    return {row["task_id"]: row for row in rows if row["data"] == name}


def load_divisible(
    dataset: Dataset,
    split: str,
    source: str | os.PathLike[str],
    exclude_known_issues: bool,
    sandbox: Sandbox,
) -> TaskSet:
    """Load one split as `load` does, without rows whose work cannot be divided; `excluded` has the reasons.

    Args:
        dataset: As in `load`.
        split: As in `load`.
        source: As in `load`.
        exclude_known_issues: As in `load`.
        sandbox: Where divisions of unknown rows run.

    Raises:
        ValueError: If no row is left, and as `load` does.
    """
    known = known_divisions(dataset.name)
    whole = load(dataset, split, source, exclude_known_issues)
    tasks = [
        with_division(task, known.get(task.task_id, {}))
        for task in whole.tasks
        if isinstance(task, CodeTask)
    ]
    unknown = [t for t in tasks if t.task_id not in known and "aux_0" in t.references]
    divisions = measure_divisions([(task, task.references) for task in unknown], sandbox)
    shares = {task_id: float(row["shared"]) for task_id, row in known.items()}
    for task, division in zip(unknown, divisions, strict=True):
        shares[task.task_id] = division.shared() if all(division.passed) else 0.0
    reasons = {
        task.task_id: _reason(shares.get(task.task_id))
        for task in tasks
        if shares.get(task.task_id, 0.0) < FULL_SHARE
    }
    rest = tuple(task for task in tasks if task.task_id not in reasons)
    if not rest:
        raise ValueError(f"split {split!r} of {whole.source} has no task to divide: {reasons}")
    if reasons:
        logger.info("%d of %d tasks cannot be divided and are left out", len(reasons), len(tasks))
    return replace(whole, tasks=rest, excluded={**whole.excluded, **reasons})


def with_division(task: CodeTask, row: Row) -> CodeTask:
    """Return the task with the division of the table as its references, where it has none."""
    if "aux" not in row or "aux_0" in task.references:
        return task
    return replace(task, references={"main_0": row["main"], "aux_0": row["aux"]})


def _reason(share: float | None) -> str:
    if share is None:
        return UNKNOWN
    return (
        f"{share:.0%} of its tests are shared work under its best known division; "
        f"{FULL_SHARE:.0%} are needed"
    )
