from __future__ import annotations

import json
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.audit.run import audit
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.envs.datasets.loading import KNOWN_ISSUES, Remark
from llm_decpomdp.envs.sandbox import Limits
from tests.benchmarks.audits import SOUND, audited, only, rows
from tests.support.programs import SQUARES

LOOP = "def check(candidate):\n    for n in range(1, 4):\n        assert candidate(n) == n * n\n"


def test_sound_data_gives_no_remarks(tmp_path: Path) -> None:
    result = audited(tmp_path, SOUND)
    assert (result.remarks, result.programs, result.healthy) == ((), 1, True)


@pytest.mark.parametrize(
    "expression",
    [
        "next(iter({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'})) < 'e'",  # the order of a set of strings
        "__import__('random').random() < 0.5",
        "__import__('zlib').crc32(str(__import__('time').time_ns()).encode()) % 2",  # clocks may be coarse
    ],
)
def test_a_reference_that_depends_on_chance_is_flaky(tmp_path: Path, expression: str) -> None:
    code = f"def f(x):\n    return x * x if x == 2 or {expression} else 0\n"
    result = audited(tmp_path, code, repeats=24)
    remark = only(result, "flaky")
    assert remark.fault and not result.healthy
    assert remark.program == "reference"
    assert "assert f(3) == 9" in remark.text and "assert f(2) == 4" not in remark.text
    assert "passed with seed" in remark.text and "failed with seed" in remark.text


def test_random_numbers_that_change_nothing_are_not_flaky(tmp_path: Path) -> None:
    code = "import random\ndef f(x):\n    return x * x + 0 * random.randrange(9)\n"
    assert audited(tmp_path, code).remarks == ()


def test_a_wrong_reference_has_its_failed_test(tmp_path: Path) -> None:
    result = audited(tmp_path, "def f(x):\n    return 4\n")
    remark = only(result, "reference")
    assert remark.fault and "assert f(3) == 9: AssertionError" in remark.text


POINT = """
from dataclasses import dataclass

@dataclass
class Point:
    x: int

def f(x):
    return Point(x * x)
"""


def test_a_reference_with_compared_objects(tmp_path: Path) -> None:
    head = "def check(candidate):\n    assert candidate(2).x == 4\n"
    assert audited(tmp_path, POINT, head).remarks == ()
    result = audited(tmp_path, POINT, head + "    assert candidate(2) == candidate(2)\n")
    assert only(result, "reference").fault
    remark = only(result, "apart")
    assert remark.fault and remark.text.startswith("passes only if the tests run in the process")


def test_asserts_in_loops_are_calibrated_and_a_note(tmp_path: Path) -> None:
    result = audited(tmp_path, SOUND, LOOP)
    assert not only(result, "varying").fault and result.healthy


def test_asserts_that_nothing_calibrates_are_a_fault(tmp_path: Path) -> None:
    test = "def check(candidate):\n    for n in candidate(2):\n        assert n > 0\n"
    path = tmp_path / "problems.jsonl"
    row = {"task_id": "a", "prompt": "def f(x):\n    pass\n", "entry_point": "f", "test": test}
    path.write_text(json.dumps(row) + "\n")
    result = audit("humaneval-v0", str(path))
    assert only(result, "varying").fault and result.programs == 0


@pytest.mark.parametrize(
    ("test", "stub", "fault"),
    [
        ("assert candidate(0) is None\n    assert candidate(2) == 4", "returns None", False),
        ("assert not candidate(0)", "returns None", True),
        ("try:\n        candidate(0)\n    except Exception:\n        assert 1 < 2", "raises", True),
    ],
)
def test_vacuous_tests(tmp_path: Path, test: str, stub: str, fault: bool) -> None:
    body = "    if x == 0:\n        return None\n    return x * x\n"
    if stub == "raises":
        body = "    return 1 / x\n"
    test = f"def check(candidate):\n    {test}\n"
    remark = only(audited(tmp_path, f"def f(x):\n{body}", test), "vacuous")
    assert (remark.program, remark.fault) == (f"code that {stub}", fault)


@pytest.mark.parametrize(
    ("work", "wall_factor", "expected"),
    [("__import__('time').sleep(60)", 3, True), ("sum(iter(int, 1))", 50, False)],
)
def test_time_outs_by_clock(tmp_path: Path, work: str, wall_factor: float, expected: bool) -> None:
    limits = Limits(test_seconds=0.2, wall_factor=wall_factor, max_timeouts=1)
    result = audited(tmp_path, f"def f(x):\n    return {work}\n", repeats=2, limits=limits)
    assert ("clock" in {remark.kind for remark in result.remarks}) == expected


# The programs of a run


def episodes(tmp_path: Path, completions: dict[str, list[str]], task_id: str = "one") -> Path:
    path = tmp_path / "episodes.jsonl"
    start = {"task_id": task_id, "seed": None}
    row = {"start": start, "final": None, "groups": [{"completions": completions}]}
    path.write_text(2 * (json.dumps(row) + "\n"))
    return path


def test_the_programs_of_a_run_are_graded_once_each(tmp_path: Path) -> None:
    flaky = "import random\ndef f(x):\n    return x * x if random.random() < 0.5 else 0\n"
    helper = "def aux(x):\n    return x"
    team = {"aux_0": [helper] * 3, "main_0": [SOUND, flaky, "no code"]}
    path = episodes(tmp_path, team)
    result = audited(tmp_path, SOUND, episodes=path, repeats=8)
    assert result.programs == 1 + 3
    (remark,) = result.remarks
    assert (remark.kind, remark.program) == ("flaky", "episodes.jsonl line 1, turn 1, sample 2")


@pytest.mark.parametrize(
    ("completions", "task_id", "message"),
    [
        ({"main_0": [SOUND]}, "two", "unknown task_id 'two'.*--source and --split of the run"),
        ({"judge_0": [SOUND]}, "one", "expected main_0, got judge_0"),
    ],
)
def test_episodes_of_something_else_are_an_error(
    tmp_path: Path, completions: dict[str, list[str]], task_id: str, message: str
) -> None:
    path = episodes(tmp_path, completions, task_id)
    with pytest.raises(ConfigError, match=message):
        audited(tmp_path, SOUND, episodes=path)


# Known issues


def test_a_fault_on_a_row_with_a_known_issue_is_explained(tmp_path: Path) -> None:
    source = rows(tmp_path, ("HumanEval/47", "def f(x):\n    return 4\n", SQUARES))
    result = audit("humaneval-v0", source, repeats=2)
    remark = only(result, "reference")
    assert remark.fault and remark.explained == KNOWN_ISSUES["HumanEval/47"]
    assert result.healthy
    assert "which explain 1 faults; 0 unexplained faults" in result.summary


def test_unexplained_faults_come_first_and_then_explained_ones(tmp_path: Path) -> None:
    wrong = "def f(x):\n    return 4\n"
    tasks = (("a", SOUND, LOOP), ("HumanEval/47", wrong, SQUARES), ("b", wrong, SQUARES))
    result = audit("humaneval-v0", rows(tmp_path, *tasks), repeats=2)
    assert [remark.task_id for remark in result.remarks] == ["b", "HumanEval/47", "a"]
    assert [bool(remark.explained) for remark in result.remarks] == [False, True, False]


# Examples


def example_remarks(folder: Path, prompt: str, **more: str) -> list[Remark]:
    """The remarks on one problem whose tests square a number."""
    row = {"task_id": "a", "prompt": prompt, "entry_point": "f", "test": SQUARES, **more}
    path = folder / "problems.jsonl"
    path.write_text(json.dumps(row) + "\n")
    return list(audit("humaneval-v0", str(path), repeats=2).remarks)


def test_an_example_that_a_test_contradicts_is_a_fault(tmp_path: Path) -> None:
    prompt = 'def f(x):\n    """Square a number: f(2) -> {}."""\n'
    (remark,) = example_remarks(tmp_path, prompt.format(5))  # needs no reference
    assert (remark.kind, remark.fault) == ("example", True)
    assert "f(2) -> 5" in remark.text and "candidate(2) == 4" in remark.text
    assert example_remarks(tmp_path, prompt.format(4)) == []


def test_an_example_that_the_reference_alone_breaks_is_a_note(tmp_path: Path) -> None:
    prompt = 'def f(x):\n    """Square a number.\n\n    >>> f(5)\n    {}\n    """\n'
    (remark,) = example_remarks(tmp_path, prompt.format(26), main=SOUND)
    assert (remark.kind, remark.fault) == ("example", False)
    assert example_remarks(tmp_path, prompt.format(25), main=SOUND) == []


# What is shipped


@pytest.mark.parametrize(
    ("env_id", "split", "references"),
    [
        ("humaneval-v0", "test[45:55]", 10),
        ("coophumaneval-v0", "test[:16]", 16),
        ("mbpp-v0", "all[:20]", 20),
        ("bugfix-v0", "train[:8]", 8),
        ("humanevalfix-v0", "test[:10]", 10),
        ("classeval-v0", "test[:5]", 5),
        ("compose-v0", "test[:10]", 10),
    ],
)
def test_the_shipped_problems_are_sound(env_id: str, split: str, references: int) -> None:
    result = audit(env_id, "bundled", split, repeats=2)
    assert result.healthy and result.references == references
    found = {r.kind for r in result.remarks if not r.explained}
    assert found <= {"vacuous", "varying"}  # some tests of HumanEval


def test_tasks_without_tests_are_refused() -> None:
    with pytest.raises(ConfigError, match="probe-rendezvous-v0 has nothing to audit"):
        audit("probe-rendezvous-v0")
