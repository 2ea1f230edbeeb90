"""Problems of a user's own, and files of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


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


def write_lines(path: Path, rows) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def write_json(path: Path, rows) -> Path:
    path.write_text(json.dumps(rows), "utf-8")
    return path


def write_parquet(path: Path, rows) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path
