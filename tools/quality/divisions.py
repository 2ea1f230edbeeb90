"""Write the table of the tasks of `-v1`: the share of shared work of the best known division of each row.

    LLM_DECPOMDP_DATA=FOLDER python -m tools.quality.divisions > divisions.jsonl

The divisions are the data's own, ours (the rows of the table with code), and those of function extraction. The
output replaces `envs/data/divisions.jsonl`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from llm_decpomdp.envs.coding.division import divide_reference
from llm_decpomdp.envs.coding.shared_work import known_divisions, with_division
from llm_decpomdp.envs.datasets.humaneval import COOPHUMANEVAL, HUMANEVAL, CodeTask
from llm_decpomdp.envs.datasets.loading import REFERENCE, Dataset, load
from llm_decpomdp.envs.datasets.mbpp import MBPP
from llm_decpomdp.envs.sandbox import Limits, Sandbox

# An extraction may loop for ever.
LIMITS = Limits(load_seconds=2, test_seconds=2, program_seconds=6, job_seconds=10)


def rows(dataset: Dataset, split: str, sandbox: Sandbox) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data set, of its real and of its bundled problems."""
    known = known_divisions(dataset.name)
    tasks = {t.task_id: t for s in ("bundled", "auto") for t in load(dataset, split, s).tasks}
    for task_id, task in tasks.items():
        assert isinstance(task, CodeTask)
        code = {key: known.get(task_id, {}).get(key) for key in ("aux", "main")}
        found = divide_reference(with_division(task, known.get(task_id, {})), sandbox)
        origin = "none" if found is None else found.origin
        if origin != REFERENCE and found is not None:
            origin = "extraction"
        elif code["aux"]:
            origin = "ours"
        share = 0.0 if found is None else round(found.division.shared(), 3)
        row = {"data": dataset.name, "task_id": task_id, "shared": share, "origin": origin}
        yield {**row, **{key: text for key, text in code.items() if text}}


def main() -> None:
    """Write the table."""
    sandbox = Sandbox(LIMITS, cache_size=0)
    for dataset, split in ((COOPHUMANEVAL, "test"), (HUMANEVAL, "test"), (MBPP, "all")):
        for row in rows(dataset, split, sandbox):
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
