"""Demonstrations from references that are divided between two agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.algorithms.training.sft_data import read_demonstrations
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.export.demonstrations import write_demonstrations

SQUARES = """
    total = 0
    for x in xs:
        if x % 2 == 0:
            total += x * x + 1
    return total
"""


def row(task_id: str, name: str, body: str, test: str) -> dict[str, Any]:
    return {
        "task_id": task_id,
        "prompt": f'def {name}(xs):\n    """Do {task_id}."""\n',
        "canonical_solution": body,
        "entry_point": name,
        "test": f"def check(candidate):\n    {test}\n",
    }


SUM = "assert candidate([1, 2, 4]) == 22\n    assert candidate([2, 6, 9]) == 42"
ROWS = [
    row("own/0", "squares", SQUARES, SUM),
    row("own/1", "length", "    return len(xs)\n", "assert candidate([3, 4]) == 2"),
    row("own/2", "wrong", SQUARES, "assert candidate([2]) == 7"),
    row("own/3", "evaluated", SQUARES, SUM),
]


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in ROWS), encoding="utf-8")
    return str(path)


def test_a_warm_start_reads_divisions_that_pass_and_need_both_agents(
    source: str, tmp_path: Path
) -> None:
    output = tmp_path / "lessons.jsonl"
    without = ["humaneval-v0:test[3:]"]
    result = write_demonstrations("humaneval-v0", "test", output, source=source, without=without)
    assert (result.problems, result.left_out, sum(result.origins.values())) == (3, 1, 1)
    assert next(result.lines()).startswith("1 of 3 problems have a division")
    aux, main = map(json.loads, output.read_text(encoding="utf-8").splitlines())
    assert aux["task_id"] == main["task_id"] == "own/0" and aux["shared"] == 1.0
    assert aux["completion"].startswith("def aux(") and "aux(" in main["completion"]
    assert "def squares(xs):" in main["completion"] and "Do own/0" not in main["completion"]
    examples = [example for (example,) in read_demonstrations(output, ["aux_0", "main_0"])]
    assert [example.agent for example in examples] == ["aux_0", "main_0"]
    assert "helper function named `aux`" in examples[0].prompt


def test_in_order_the_second_agent_reads_the_answer_of_the_first(
    source: str, tmp_path: Path
) -> None:
    output = tmp_path / "lessons.jsonl"
    write_demonstrations("humaneval-v0", "test[:1]", output, source=source, in_order=True)
    aux, main = map(json.loads, output.read_text(encoding="utf-8").splitlines())
    assert aux["completion"] in main["prompt"] and "squares" in main["completion"]
    assert "def aux(" in aux["completion"] and aux["prompt"]


def test_helpers_may_have_the_parameters_of_the_entry_function(source: str, tmp_path: Path) -> None:
    output = tmp_path / "lessons.jsonl"
    write_demonstrations("humaneval-v0", "test[:1]", output, source=source)
    assert not json.loads(output.read_text().splitlines()[0])["completion"].startswith(
        "def aux(xs)"
    )
    rows = str(tmp_path / "filtered.jsonl")
    body = "    kept = [x * x for x in xs if x % 2 == 0]\n    return sum(kept) + len(kept)\n"
    Path(rows).write_text(json.dumps(row("own/5", "squares", body, SUM)) + "\n")
    write_demonstrations("humaneval-v0", "test", output, source=rows, same_parameters=True)
    aux, main = map(json.loads, output.read_text(encoding="utf-8").splitlines())
    assert aux["completion"].startswith("def aux(xs):") and "aux(xs)" in main["completion"]


@pytest.mark.parametrize(
    ("env_id", "split", "said"),
    [
        ("tldr-v0", "test", "aux_0 and main_0"),
        ("mbpp-v0", "tran", "tran"),
        ("mbp-v0", "train", "mbpp-v0"),
    ],
)
def test_wrong_arguments_are_named(env_id: str, split: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        write_demonstrations(env_id, split, tmp_path / "a.jsonl", source="bundled")
