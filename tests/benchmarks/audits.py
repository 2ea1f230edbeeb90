"""Small data sets that are audited, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from llm_decpomdp.benchmarks.audit.run import Audit, audit
from llm_decpomdp.envs.datasets.loading import Remark
from tests.support.programs import SQUARES

SOUND = "def f(x):\n    return x * x\n"


def rows(tmp_path: Path, *tasks: tuple[str, str, str]) -> str:
    """A file of problems: name, reference, test."""
    path = tmp_path / "problems.jsonl"
    prompt = 'def f(x):\n    """Square a number."""\n'
    lines = [
        {"task_id": name, "prompt": prompt, "entry_point": "f", "main": main, "test": test}
        for name, main, test in tasks
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def audited(tmp_path: Path, main: str, test: str = SQUARES, **options: Any) -> Audit:
    return audit("humaneval-v0", rows(tmp_path, ("one", main, test)), **options)


def only(result: Audit, kind: str) -> Remark:
    (remark,) = [remark for remark in result.remarks if remark.kind == kind]
    return remark
