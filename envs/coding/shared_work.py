"""The families whose reward is for shared work, and their tasks: rows that are known to be divisible."""

from __future__ import annotations

import functools
import logging
import os
from dataclasses import replace
from functools import partial

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.coding.division import FULL_SHARE, DivisionReward, measure_divisions
from llm_decpomdp.envs.coding.env import CodingOptions, make_coding_env
from llm_decpomdp.envs.datasets.humaneval import COOPHUMANEVAL, HUMANEVAL, CodeTask
from llm_decpomdp.envs.datasets.loading import Dataset, load
from llm_decpomdp.envs.datasets.mbpp import MBPP
from llm_decpomdp.envs.datasets.rows import Row, bundled_rows
from llm_decpomdp.envs.sandbox import Sandbox
from llm_decpomdp.interfaces import TaskSet
from llm_decpomdp.options import as_arguments

logger = logging.getLogger(__name__)

UNKNOWN = "no division of it is known; give the row the columns aux and main"


@as_arguments(CodingOptions)
def shared_work_env(dataset: Dataset, name: str, options: CodingOptions) -> DecPOMDPEnv:
    """Write one Python function as a team that divides the work: `humaneval-v1`, `coophumaneval-v1` and `mbpp-v1`.

    ## Description
    Two agents write one program at the same time, as in `coophumaneval-v0`: `aux_0` a helper function `aux`,
    `main_0` the entry function. The reward is another one: tests count most if they need both. Rows that are not
    known to be divisible are left out; `metadata["data"]["excluded"]` names them with the reasons.

    ## Observation Space
    `UnicodeText`: the problem, worded for the role, on the first turn; then the feedback of the external mode.

    ## Action Space
    `UnicodeText`: a completion. Any text is legal; code is found in fences and amid prose, by the rule of
    `llm_decpomdp.envs.source_code.completion`.

    ## Rewards
    The components of `llm_decpomdp.envs.coding.division`, each turn anew, in [0, 1]: 1.0 for a team that divides
    the work and passes all tests, at most 0.55 where one agent does it, 0.46 for an agent alone. `solved` in the
    infos means full marks. Each agent also has points of its own, `own/part` in its infos: the share of the
    passing tests to which its code adds something. A `main_0` that does everything alone has `own/part` 1.0, so a
    large `own_weight` can reward ignoring the helper.

    ## Starting State
    A task drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`.

    ## Episode End
    Terminates after `num_turns` turns, and after a turn with full marks if `stop_when_solved`.

    Raises:
        ValueError: If an argument has a bad value; bad data raises when it is first loaded.

    ## Version History
    - v1: the reward is for tests that need both sides, and every row can be divided.
    - v0: the levels of `llm_decpomdp.envs.coding.reward`.
    """
    sandbox = Sandbox(isolation=options.isolation)
    tasks = partial(
        load_divisible,
        dataset,
        options.split,
        options.source,
        options.exclude_known_issues,
        sandbox,
    )
    return make_coding_env(dataset, name, options, DivisionReward, sandbox, tasks)


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

    `envs/data/divisions.jsonl` has a row for each task of the known data: the share of its tests that are shared
    work under its best known division, and the origin of that division. `reference` is the data's own division,
    and `extraction` one that function extraction finds in its solution. Those of `ours` were written here, because
    the problems of CoopHumanEval have no solutions. With `none` no division is known. The command
    `python -m tools.quality.divisions` writes the table.

    A row of a user's file that is not in the table is measured, if it has the columns `aux` and `main`. Its
    division runs in the sandbox. All else is as in `load`.

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


humaneval_v1 = partial(shared_work_env, HUMANEVAL, "humaneval_v1")


coophumaneval_v1 = partial(shared_work_env, COOPHUMANEVAL, "coophumaneval_v1")


mbpp_v1 = partial(shared_work_env, MBPP, "mbpp_v1")
