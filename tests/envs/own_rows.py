"""Problems of a user's own, and files of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llm_decpomdp.envs.datasets.humaneval import CodeTask, code_task
from tests.support.programs import check


def make_rows(number: int = 4) -> list[dict[str, str]]:
    return [
        {
            "task_id": f"own/{index}",
            "prompt": f'def f{index}(x):\n    """Add {index}."""\n',
            "test": f"def check(candidate):\n    assert candidate(1) == {index + 1}\n",
            "entry_point": f"f{index}",
        }
        for index in range(number)
    ]


def square_row(*numbers: int) -> dict[str, str]:
    """A problem whose tests square these numbers."""
    test = check(*(f"assert candidate({x}) == {x * x}" for x in numbers))
    row = {"task_id": "t/0", "prompt": 'def sq(x):\n    """square"""\n', "entry_point": "sq"}
    return {**row, "test": test}


def square_task(*numbers: int) -> CodeTask:
    return code_task(0, square_row(*numbers))


def write_lines(path: Path, rows, ensure_ascii: bool = False) -> Path:
    lines = (json.dumps(row, ensure_ascii=ensure_ascii) + "\n" for row in rows)
    path.write_text("".join(lines), "utf-8")
    return path


def write_json(path: Path, rows) -> Path:
    path.write_text(json.dumps(rows), "utf-8")
    return path


def write_parquet(path: Path, rows) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path
