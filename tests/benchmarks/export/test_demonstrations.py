"""Demonstrations from references that are divided between two agents."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.algorithms.training.sft_data import read_demonstrations
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.export.demonstrations import (
    _most_shared_first,
    _tail_first,
    write_demonstrations,
)
from llm_decpomdp.envs.coding.division import DividedReference, Division

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


def test_warm_starts_read_divisions_that_need_both_agents(source: str, tmp_path: Path) -> None:
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


def test_the_second_agent_reads_the_answer_of_the_first(source: str, tmp_path: Path) -> None:
    output = tmp_path / "lessons.jsonl"
    write_demonstrations("humaneval-v0", "test[:1]", output, source=source, first="aux_0")
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


def test_several_divisions_of_a_reference_and_those_of_a_kind(source: str, tmp_path: Path) -> None:
    def write(**options: Any) -> list[dict[str, Any]]:
        path = tmp_path / "lessons.jsonl"
        write_demonstrations("humaneval-v0", "test[:1]", path, source=source, **options)
        return [*map(json.loads, path.read_text(encoding="utf-8").splitlines())]

    several = write(per_problem=9)
    mains = [line["completion"] for line in several[1::2]]
    assert len(mains) == len({*mains}) > 2
    assert {line["origin"] for line in several} > {"loop body", "expression"}
    assert {line["origin"] for line in write(per_problem=9, kinds=["loop body"])} == {"loop body"}
    assert write(prefill="async") == []
    with pytest.raises(ConfigError, match="unknown kind of division 'loop'; did you mean 'loop b"):
        write(kinds=["loop"])


def divided(last: str, origin: str, balance: float, shared: int = 2) -> DividedReference:
    needed = (True,) * shared + (False,) * (2 - shared)
    code = {"aux_0": "def aux(x):\n    return x", "main_0": f"def f(x):\n    y = x\n    {last}\n"}
    return DividedReference(code, origin, balance, False, Division((True, True), needed, (needed,)))


def test_divisions_at_the_end_come_first_and_bodies_of_loops_last() -> None:
    tail = divided("return aux(y)", "statements", 0.1)
    half = divided("return aux(y)", "statements", 0.1, shared=1)
    even = divided("return 1 + aux(y)", "expression", 0.6)
    more = divided("return 2 + aux(y)", "expression", 1.0)
    uneven = divided("return y + aux(x)", "expression", 0.2)
    loop = divided("return y", "loop body", 0.9)
    assert [tail.is_tail, half.is_tail, even.is_tail] == [True, True, False]
    given = [loop, uneven, even, more, half, tail]
    assert sorted(given, key=_tail_first) == [tail, even, more, half, uneven, loop]
    assert sorted(given, key=_most_shared_first) == [more, loop, even, uneven, tail, half]
    counts = replace(tail, counts=True)
    assert sorted([counts, uneven, loop], key=_tail_first) == [uneven, counts, loop]


def test_with_main_first_the_helper_reads_its_call(source: str, tmp_path: Path) -> None:
    output = tmp_path / "lessons.jsonl"
    write_demonstrations("humaneval-v0", "test[:1]", output, source=source, first="main_0")
    rows = {line["agent"]: line for line in map(json.loads, output.read_text().splitlines())}
    assert rows["main_0"]["completion"] in rows["aux_0"]["prompt"]
    assert rows["aux_0"]["completion"] not in rows["main_0"]["prompt"]


def evaluation(folder: Path, groups: list[dict[str, Any]]) -> Path:
    folder.mkdir()
    rows = [{"start": {"task_id": "own/0"}, "groups": [group], "final": None} for group in groups]
    (folder / "episodes.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    return folder


def samples(*completions: tuple[str, int]) -> dict[str, Any]:
    return {
        "turn": 0,
        "completions": {"main_0": [text for text, _ in completions]},
        "joint": [[index] for index in range(len(completions))],
        "infos": [{"tests_passed": passed, "tests_total": 1} for _, passed in completions],
    }


OWN = f"def squares(xs):{SQUARES}"


def test_own_programs_are_divided_instead_of_references(source: str, tmp_path: Path) -> None:
    right, wrong = OWN, OWN.replace("x * x", "x ** 3")
    other = SQUARES.removeprefix("\n").replace("x * x", "x ** 2")  # continues the prompt
    groups = [samples((right, 1), (wrong, 0)), samples((right, 1), (other, 1))]
    folder, output = evaluation(tmp_path / "single", groups), tmp_path / "lessons.jsonl"
    written = []
    for per_problem in (1, 99):
        result = write_demonstrations(
            "humaneval-v0",
            "test",
            output,
            source=source,
            programs=folder,
            per_problem=per_problem,
        )
        assert result.divided == 1
        written.append(result.origins.total())
    texts = [json.loads(line)["completion"] for line in output.read_text().splitlines()]
    assert written == [1, len(texts) / 2] and len(texts) > 8
    assert not any("** 3" in text for text in texts)
    assert any("** 2" in text for text in texts) and any("x * x" in text for text in texts)


def test_programs_of_a_team_are_refused(source: str, tmp_path: Path) -> None:
    group = samples(("", 0)) | {"completions": {"aux_0": [""], "main_0": [""]}}
    folder = evaluation(tmp_path / "pair", [group])
    with pytest.raises(ConfigError, match="num_agents=1"):
        write_demonstrations(
            "humaneval-v0", "test", tmp_path / "a.jsonl", source=source, programs=folder
        )
    with pytest.raises(ConfigError, match="holds no episodes"):
        write_demonstrations(
            "humaneval-v0", "test", tmp_path / "a.jsonl", source=source, programs=tmp_path
        )
    none = evaluation(tmp_path / "none", [samples(("def length(xs): pass", 0))])
    with pytest.raises(ConfigError, match="no program"):
        write_demonstrations(
            "humaneval-v0", "test", tmp_path / "a.jsonl", source=source, programs=none
        )


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
