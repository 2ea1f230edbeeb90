"""Rows of the data sets whose tests no program that follows the whole text can pass, with the reason.

HumanEval: from `llm-decpomdp audit`, which compares the examples in the texts with the asserts. The words
agree with the asserts there, and only the examples do not.
CoopHumanEval: from writing a solution by the text for every row, and looking at each assert that it fails.
MBPP: every reference passes; these are the rows whose asserts, when all rows were read, contradicted the text or
wanted something that it does not say. Asserts count from 1. `docs/data.md` says more.
"""

from __future__ import annotations

from llm_decpomdp.envs.datasets.loading import bundled_rows

KNOWN_ISSUES: dict[str, str] = {
    row["task_id"]: row["issue"] for row in bundled_rows("known_issues.jsonl")
}
