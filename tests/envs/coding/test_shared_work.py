"""The tasks of the families whose reward is for shared work."""

from __future__ import annotations

from pathlib import Path

import pytest

import llm_decpomdp
from llm_decpomdp.benchmarks.audit.run import audit
from tests.envs.coding.test_division import ALL, PART, REST, WORDS
from tests.envs.own_rows import write_lines

ROW = {"prompt": "def f(s):\n    pass\n", "test": WORDS, "entry_point": "f"}
REAL = {**ROW, "task_id": "real", "aux": PART, "main": REST}
WHOLE = {
    **ROW,
    "task_id": "whole",
    "aux": ALL.format("aux"),
    "main": "def f(s):\n    return aux(s)\n",
}
ALONE = {**ROW, "task_id": "alone", "canonical_solution": "    return 0\n"}


def test_rows_that_cannot_be_divided_are_left_out_with_the_reason(tmp_path: Path) -> None:
    source = str(write_lines(tmp_path / "problems.jsonl", [REAL, WHOLE, ALONE]))
    env = llm_decpomdp.make("coophumaneval-v1", source=source)
    assert [task.task_id for task in env.tasks.tasks] == ["real"]
    excluded = env.metadata["data"]["excluded"]
    assert excluded["whole"].startswith("0% of its tests are shared work")
    assert excluded["alone"].startswith("no division of it is known")
    result = audit("coophumaneval-v1", source, repeats=2)
    texts = {remark.task_id: remark.text for remark in result.remarks if not remark.fault}
    assert texts["real"] == "its division is real: 5 of 6 tests are shared work"
    assert texts["whole"] == excluded["whole"] and result.healthy


def test_a_file_without_a_divisible_row_is_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "problems.jsonl", [WHOLE])
    env = llm_decpomdp.make("coophumaneval-v1", source=str(path))
    with pytest.raises(ValueError, match=r"has no task to divide: .'whole': '0% of its tests"):
        env.reset(seed=0)


def test_the_bundled_rows_are_divisible() -> None:
    for name, rows in (("coophumaneval", 75), ("humaneval", 129), ("mbpp", 17)):
        tasks = llm_decpomdp.make(f"{name}-v1", source="bundled").tasks
        assert len(tasks) >= rows and tasks.excluded
