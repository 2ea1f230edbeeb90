"""The audit finds what was planted, and says nothing about sound data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.benchmarks.__main__ import main
from llm_decpomdp.benchmarks.audit import Audit, audit
from llm_decpomdp.benchmarks.errors import ConfigError
from llm_decpomdp.benchmarks.remarks import Remark
from llm_decpomdp.envs.sandbox import Limits

SQUARES = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 9\n"
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


def test_sound_data_gives_no_remarks(tmp_path: Path) -> None:
    result = audited(tmp_path, SOUND)
    assert (result.remarks, result.programs, result.healthy) == ((), 1, True)


@pytest.mark.parametrize(
    "expression",
    [
        "next(iter({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'})) < 'e'",  # the order of a set of strings
        "__import__('random').random() < 0.5",
        "__import__('time').time_ns() // 1000 % 2",
    ],
)
def test_a_reference_that_depends_on_chance_is_flaky(tmp_path: Path, expression: str) -> None:
    code = f"def f(x):\n    return x * x if x == 2 or {expression} else 0\n"
    result = audited(tmp_path, code, repeats=12)
    remark = only(result, "flaky")
    assert remark.fault and not result.healthy
    assert remark.program == "reference"
    assert "assert f(3) == 9" in remark.text and "assert f(2) == 4" not in remark.text
    assert "passed with seed" in remark.text and "failed with seed" in remark.text


def test_random_numbers_that_change_nothing_are_not_flaky(tmp_path: Path) -> None:
    code = "import random\ndef f(x):\n    return x * x + 0 * random.randrange(9)\n"
    assert audited(tmp_path, code).remarks == ()


def test_a_reference_without_full_marks_is_named_with_its_failed_test(tmp_path: Path) -> None:
    result = audited(tmp_path, "def f(x):\n    return 4\n")
    remark = only(result, "reference")
    assert remark.fault and "assert f(3) == 9: AssertionError" in remark.text


def test_tests_beside_the_program_are_forgeable_and_say_why(tmp_path: Path) -> None:
    test = SQUARES + "    assert candidate.__name__ == 'f'\n"
    remark = only(audited(tmp_path, SOUND, test), "in-process")
    assert remark.fault and remark.text.endswith("it reads candidate.__name__")


def test_asserts_in_loops_are_calibrated_and_a_note(tmp_path: Path) -> None:
    test = (
        "def check(candidate):\n    for n in range(1, 4):\n        assert candidate(n) == n * n\n"
    )
    result = audited(tmp_path, SOUND, test)
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
def test_tests_that_pass_for_an_empty_function_are_vacuous(
    tmp_path: Path, test: str, stub: str, fault: bool
) -> None:
    body = "    if x == 0:\n        return None\n    return x * x\n"
    if stub == "raises":
        body = "    return 1 / x\n"
    test = f"def check(candidate):\n    {test}\n"
    remark = only(audited(tmp_path, f"def f(x):\n{body}", test), "vacuous")
    assert (remark.program, remark.fault) == (f"a function that {stub}", fault)


@pytest.mark.parametrize(
    ("work", "expected"), [("__import__('time').sleep(60)", True), ("sum(iter(int, 1))", False)]
)
def test_only_time_outs_by_the_clock_depend_on_the_machine(
    tmp_path: Path, work: str, expected: bool
) -> None:
    limits = Limits(test_seconds=0.2, max_timeouts=1)
    result = audited(tmp_path, f"def f(x):\n    return {work}\n", repeats=2, limits=limits)
    assert ("clock" in {remark.kind for remark in result.remarks}) == expected


# The programs of a run


def episodes(tmp_path: Path, completions: dict[str, list[str]], task_id: str = "one") -> Path:
    path = tmp_path / "episodes.jsonl"
    row = {
        "start": {"task_id": task_id, "seed": None},
        "final": None,
        "groups": [{"completions": completions}],
    }
    path.write_text(2 * (json.dumps(row) + "\n"))
    return path


def test_the_programs_of_a_run_are_graded_once_each(tmp_path: Path) -> None:
    flaky = "import random\ndef f(x):\n    return x * x if random.random() < 0.5 else 0\n"
    helper = "def aux(x):\n    return x"
    team = {"aux_0": [helper] * 3, "main_0": [SOUND, flaky, "no code"]}
    path = episodes(tmp_path, team)
    result = audited(tmp_path, SOUND, episodes=path, repeats=8)
    assert result.programs == 1 + 3
    assert [remark.program for remark in result.remarks] == [
        "episodes.jsonl line 1, turn 1, sample 2"
    ]
    assert result.remarks[0].kind == "flaky"


@pytest.mark.parametrize(
    ("completions", "task_id", "message"),
    [
        ({"main_0": [SOUND]}, "two", "unknown task_id 'two'.*--source and --split of the run"),
        ({"judge_0": [SOUND]}, "one", "expected aux_0 and main_0"),
    ],
)
def test_episodes_of_something_else_are_an_error(
    tmp_path: Path, completions: dict[str, list[str]], task_id: str, message: str
) -> None:
    path = episodes(tmp_path, completions, task_id)
    with pytest.raises(ConfigError, match=message):
        audited(tmp_path, SOUND, episodes=path)


# The command


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["audit", *arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_the_command_prints_a_table_and_fails_on_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = rows(tmp_path, ("good", SOUND, SQUARES), ("bad", "def f(x):\n    return 4", SQUARES))
    assert call("humaneval-v0", "--source", source) == 1
    shown = capsys.readouterr().out
    assert "reference" in shown and "bad" in shown
    assert "2 programs graded 3 times each: 1 faults, 0 notes" in " ".join(shown.split())


def test_the_command_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = rows(tmp_path, ("good", SOUND, SQUARES))
    assert call("humaneval-v0", "--source", source, "--repeats", "2", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["healthy"], found["remarks"], found["repeats"]) == (True, [], 2)
    assert found["data"]["rows"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["coop-v0"], 2, "did you mean 'coophumaneval-v0'"),
        (["humaneval-v0", "--source", "nowhere.jsonl"], 2, "nowhere.jsonl"),
        (["humaneval-v0", "--source", "bundled", "--repeats", "1"], 2, "at least 2"),
        (["humaneval-v0", "--source", "bundled", "--episodes", "none"], 2, "no file none"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*arguments) == code
    told = capsys.readouterr().err.strip()
    assert told.startswith("error: ") and "\n" not in told and message in told


def test_the_shipped_problems_are_sound() -> None:
    assert audit("coophumaneval-v0", "bundled", "test[:16]", repeats=2).remarks == ()
