"""Which tests a program passes by shared work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import llm_decpomdp
from llm_decpomdp.benchmarks.audit.run import audit
from llm_decpomdp.envs import CodeTask, Sandbox, measure_divisions
from llm_decpomdp.envs.coding.division import (
    Division,
    DivisionOptions,
    DivisionReward,
    divide_reference,
)
from llm_decpomdp.envs.coding.roles import coding_team
from llm_decpomdp.envs.datasets.humaneval import code_task
from llm_decpomdp.envs.source_code.function_extraction import KINDS
from tests.envs.coding.lone_policies import lone_policies
from tests.envs.own_rows import write_lines
from tests.support.programs import check

WORDS = check(
    "assert candidate('level up') == 1",
    "assert candidate('noon kayak x') == 3",
    "assert candidate('') == 0",
    "assert candidate('abc') == 0",
    "assert candidate('was it') == 0",
    "assert candidate('eve and bob') == 2",
)
TASK = code_task(
    0, {"task_id": "t", "prompt": "def f(s):\n    pass\n", "test": WORDS, "entry_point": "f"}
)
PART = "def aux(w):\n    return w == w[::-1]\n"
REST = "def f(s):\n    return sum(1 for w in s.split() if aux(w))\n"
ALL = "def {}(s):\n    return sum(w == w[::-1] for w in s.split())\n"


def measure(*programs: tuple[str, str]) -> list[Division]:
    sandbox = Sandbox(workers=1, cache_size=0)
    return measure_divisions([(TASK, {"aux_0": a, "main_0": m}) for a, m in programs], sandbox)


def test_a_test_is_shared_if_it_fails_without_either_side():
    (division,) = measure((PART, REST))
    assert division.passed == (True,) * 6
    # Without words the helper is not called; both sides need a word to add something.
    assert division.main_adds[:2] == (True, True)
    assert division.helpers_add[0] == (True, True, False, True, True, True)
    assert division.shared() >= 0.5 and division.is_real()


@pytest.mark.parametrize(
    ("aux", "main", "main_part", "helper_part"),
    [
        (ALL.format("aux"), "def f(s):\n    return aux(s)\n", 0, 1),
        (ALL.format("aux"), "def f(s):\n    r = aux(s)\n    return 0 if r is None else r\n", 0, 1),
        ("def aux(x):\n    return 0\n", "def f(s):\n    assert aux(s) == 0\n" + ALL.format("f")[9:], 0.5, 0),
        ("def aux(x):\n    return x\n", ALL.format("f"), 1, 0),
    ],
    ids=["wrapper", "default", "assert", "no call"],
)  # fmt: skip
def test_work_of_one_side_is_not_shared(aux, main, main_part, helper_part):
    (division,) = measure((aux, main))
    assert all(division.passed) and division.shared() == 0
    assert division.main_part() == main_part
    assert division.helper_part() == helper_part


def test_each_agent_has_own_points_for_the_passing_tests_that_need_its_part() -> None:
    reward = DivisionReward(coding_team(2), Sandbox(workers=1))
    lone = reward(TASK, {"aux_0": "def aux(x):\n    return x\n", "main_0": ALL.format("f")})
    assert lone.own == {"aux_0": {"part": 0.0}, "main_0": {"part": 1.0}}
    shared = reward(TASK, {"aux_0": PART, "main_0": REST}).own
    assert shared["aux_0"]["part"] == pytest.approx(5 / 6) and shared["main_0"]["part"] >= 0.5
    assert reward(TASK, {"aux_0": PART, "main_0": ""}).own == {}
    alone = DivisionReward(coding_team(1), Sandbox(workers=1))
    assert alone(TASK, {"main_0": ALL.format("f")}).own == {} == dict.fromkeys(alone.own_components)


def test_equal_parameters_are_equal_in_every_kind() -> None:
    test = check("assert candidate(2) == 5", "assert candidate(3) == 7")
    row = {"task_id": "k", "prompt": "def f(n):\n    pass\n", "test": test, "entry_point": "f"}
    main, aux = "def f(n, *rest):\n    return aux(n) + 1", "def aux(n):\n    return 2 * n"
    task = replace(code_task(0, row), references={"main_0": main, "aux_0": aux})
    assert divide_reference(task, Sandbox(workers=1), DivisionOptions(same_parameters=True)) is None


def test_division_of_the_data_is_none_of_the_kinds_of_extracted_parts() -> None:
    task = replace(TASK, references={"aux_0": PART, "main_0": REST})
    found = divide_reference(task, Sandbox(workers=1))
    assert found is not None and found.origin == "reference"
    assert divide_reference(task, Sandbox(workers=1), DivisionOptions(kinds=KINDS)) is None


def test_a_constant_made_by_both_earns_more_than_a_correct_program_of_one_agent() -> None:
    """A known weakness: a test that passes by luck counts as shared work, whatever share of the tests passes."""
    bell = check(*(f"assert candidate({n}) == {number}" for n, number in ((2, 2), (3, 5), (4, 15))))
    row = {"task_id": "b", "prompt": "def f(n):\n    pass\n", "test": bell, "entry_point": "f"}
    aux, main = "def aux(n):\n    return 2 * n + 2", "def f(n):\n    return aux(n) / (n + 1)"
    assert earn([(code_task(0, row), aux, main)]) == [pytest.approx(0.65)]


def divided_tasks() -> list[CodeTask]:
    env = llm_decpomdp.make("coophumaneval-v1", source="bundled")
    return [task for task in env.tasks.tasks if isinstance(task, CodeTask)]


def earn(programs: list[tuple[CodeTask, str, str]]) -> list[float]:
    reward = DivisionReward(coding_team(2), Sandbox(workers=2))
    with ThreadPoolExecutor(2) as threads:
        judge = lambda p: reward(p[0], {"aux_0": p[1], "main_0": p[2]}).reward  # noqa: E731
        return [*threads.map(judge, programs)]


FEW = (
    "default,cast,unpack index,unpack flag,argument key,argument length that is used,"
    "argument empty list that is used,alone assert constant,alone identity,both turns,"
    "argument first and last index,argument in a global,argument beside a key,argument table,"
    "unpack keys,needed pair,needed indices,needed function"
)


def test_one_agent_that_does_the_work_earns_at_most_0_6() -> None:
    tasks = divided_tasks()[:40:20]
    assert bounds(tasks, FEW.split(",")) <= 0.6
    references = [(t, t.references["aux_0"], t.references["main_0"]) for t in tasks]
    assert earn(references) == pytest.approx([1.0] * len(tasks))


TOPS = check(
    "assert candidate([1, 2]) == [2]",
    "assert candidate([3, 3, 1]) == [3, 3]",
    "assert candidate([5, 1, 4, 5]) == [5, 5]",
    "assert candidate([0, 0]) == [0, 0]",
)
TOP = {"task_id": "top", "prompt": "def f(v):\n    pass\n", "test": TOPS, "entry_point": "f"}
"""The largest number of the first two lists is their length."""


LAST = "    return aux(v, len(v) - 1)\n"
NEEDS_LAST = (
    "def aux(x, n):\n    return [i for i in x if i == max(x)] if n == len(x) - 1 else None\n"
)
NEEDS_HALF = (
    "def aux(x, e, n):\n    return [i for i in x if i == max(x)] if n == len(x) // 2 else None\n"
)


@pytest.mark.parametrize(
    ("aux", "main", "main_part"),
    [
        ("def aux(x, n):\n    return [i for i in x if i == n]\n", "    return aux(v, max(v))\n", 1),
        (NEEDS_LAST, LAST, 0),
        (NEEDS_LAST, "    if v[0] == 0:\n        return v\n" + LAST, 0.25),
        (NEEDS_HALF, "    return aux(v, [], len(v) // 2)\n", 0),
    ],
    ids=["equals a length by accident", "last index", "a case alone", "half and empty"],
)
def test_an_added_argument_is_no_work_if_it_is_derived_in_the_same_way_in_all_tests(
    aux: str, main: str, main_part: float
) -> None:
    code = {"aux_0": aux, "main_0": "def f(v):\n" + main}
    (division,) = measure_divisions([(code_task(0, TOP), code)], Sandbox(workers=1))
    assert all(division.passed) and division.main_part() == main_part


@pytest.mark.slow
def test_no_policy_of_one_agent_earns_more_on_twenty_problems() -> None:
    tasks = divided_tasks()
    names = [*lone_policies(tasks[0])]
    assert len(names) >= 40 and bounds(tasks[:20], names) <= 0.6
    references = [(t, t.references["aux_0"], t.references["main_0"]) for t in tasks]
    assert earn(references) == pytest.approx([1.0] * len(tasks))


def bounds(tasks: list[CodeTask], names: list[str]) -> float:
    """Return the largest reward of these policies; each must pass all tests on most tasks."""
    every = [(name, (task, *lone_policies(task)[name])) for task in tasks for name in names]
    rewards = earn([program for _, program in every])
    for name in names:
        own = [r for (n, _), r in zip(every, rewards, strict=True) if n == name]
        assert sum(r >= 0.5 - 1e-9 for r in own) > len(own) / 2, (name, own)
    return max(rewards)


# Tasks of the families whose reward is for shared work


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
    for name, rows in (("coophumaneval", 74), ("humaneval", 130), ("mbpp", 17)):
        tasks = llm_decpomdp.make(f"{name}-v1", source="bundled").tasks
        assert len(tasks) >= rows and tasks.excluded
