"""The study of coders that complete classes."""

from __future__ import annotations

from pathlib import Path

from llm_decpomdp.benchmarks.suites.suite import load_suite

FOLDER = Path(__file__).parents[2] / "studies" / "class_teams"


def test_hypotheses_name_arms_of_the_suite() -> None:
    names = {arm.name for arm in load_suite(FOLDER / "suite.yaml").arms}
    rows = [
        line for line in (FOLDER / "README.md").read_text().splitlines() if line.startswith("| C")
    ]
    named = {part for row in rows for part in row.split("|")[3].split("`")[1::2]}
    assert len(rows) == 6 and named <= names
