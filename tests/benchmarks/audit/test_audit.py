"""The audit of data sets, its examples and its command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llm_decpomdp import registry
from llm_decpomdp.benchmarks.audit.examples import contradictions, examples
from llm_decpomdp.benchmarks.audit.run import audit, save
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.envs import CodeTask, Limits
from llm_decpomdp.envs.datasets.loading import Remark
from llm_decpomdp.envs.datasets.rows import KNOWN_ISSUES
from tests.benchmarks.audits import SOUND, audited, only, rows
from tests.benchmarks.cli.test_commands import call
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
    result = audited(tmp_path, code, repeats=16)
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
        ("humaneval-v0", "test[45:49]", 4),
        ("coophumaneval-v0", "test[:6]", 6),
        ("mbpp-v0", "all[:8]", 8),
        ("bugfix-v0", "train[:4]", 4),
        ("humanevalfix-v0", "test[:4]", 4),
        ("classeval-v0", "test[:3]", 3),
        ("compose-v0", "test[:4]", 4),
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


def told(text: str) -> list[str]:
    return [str(example) for example in examples(text, "f")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (">>> f(2)\n4", ["f(2) -> 4"]),
        ("    >>>f(2)\n    4\n    # two squared", ["f(2) -> 4"]),
        (">>> f(2) == 4\nTrue", ["f(2) == 4 -> True", "f(2) -> 4"]),
        (">>> f(2) == 4", ["f(2) -> 4"]),
        (">>> sorted(f([2]))\n[1,\n 2]", ["sorted(f([2])) -> [1, 2]"]),
        (">>> print(f(2))\n4", ["str(f(2)) -> '4'"]),
        ("f(2) == 4", ["f(2) -> 4"]),
        ("For f(2) => 4, as", ["f(2) -> 4"]),
        ("f('a)', k=(1, 2)) ➞ 'x'.", ["f('a)', k=(1, 2)) -> 'x'"]),
        ("f(2) # => 4", ["f(2) -> 4"]),
        ("f(2)  # 4", ["f(2) -> 4"]),
        ("f(2) returns 4 because 2 * 2 is 4", ["f(2) -> 4"]),
        ("f(2) -> [4] (a square)", ["f(2) -> [4]"]),
        ("f(2) -> 4; f(-3) -> 9", ["f(2) -> 4", "f(-3) -> 9"]),
        ("f(1) -> 0.5 # half", ["f(1) -> 0.5"]),
    ],
)
def test_examples_of_many_forms_are_read(text: str, expected: list[str]) -> None:
    assert told(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "f(2) ==> 19 - 5 - 6 = 8",
        "f(1) = 3, f(n) = f(n - 1) + 1",
        "f(a) => False",
        "f(2) => true",
        "f(2) is great",
        "g.f(2) -> 4",
        ">>> f(x)\n4",
        ">>> f(0)\nTraceback (most recent call last):\nValueError: zero",
        ">>> f(2)\n<object at 0x7f00>",
        ">>> x = f(2)",
        "def f(x) -> int:",
        "f(2 -> 4",
    ],
)
def test_what_only_looks_like_an_example_is_left_alone(text: str) -> None:
    assert told(text) == []


def task(text: str, *asserts: str) -> CodeTask:
    body = "".join(f"    assert {one}\n" for one in asserts)
    return CodeTask(
        task_id="a",
        index=0,
        prompt=f'def f(x):\n    """{text}"""\n',
        test=f"def check(candidate):\n{body}",
        entry_point="f",
    )


@pytest.mark.parametrize(
    ("text", "condition", "agrees"),
    [
        ("f(2) -> 4", "candidate(2) == 4", True),
        ("f(2) -> 4", "candidate(2) == 5", False),
        ("f(2) -> 4", "candidate(3) == 5", True),
        ("f(2) -> 0.1", "candidate(2) == 0.1 + 1e-9", True),  # no literal
        ("f(2) -> 0.1", "candidate(2) == 0.100000000001", True),
        ("f(2) -> 0.1", "candidate(2) == 0.11", False),
        ("f([1]) -> [1, 2]", "candidate([1]) == (1, 2)", False),
        ("f(2) -> True", "candidate(2)", True),
        ("f(2) -> True", "not candidate(2)", False),
        ("f(2) -> None", "candidate(2) is None", True),
        ("f(2) -> None", "candidate(2) is None, 'message'", True),
        ("f(2) -> 4", "abs(candidate(2) - 5) < 1", True),  # no comparison with a value
        ("f(2) -> 4", "candidate(2) != 4", True),
    ],
)
def test_examples_must_agree_with_asserts(text: str, condition: str, agrees: bool) -> None:
    found = list(contradictions(task(text, condition)))
    assert (not found) == agrees and all(remark.fault for remark in found)


SHORTER = """
from llm_decpomdp import DecPOMDPEnv, make, register

class Shorter:
    def __init__(self, reward):
        self.reward, self.components = reward, reward.components

    def __call__(self, task, completions):
        return self.reward(task, completions)

def build(**options):
    env = make("coophumaneval-v0", source="bundled", split="test[:2]", **options)
    return DecPOMDPEnv("shorter_v0", env.tasks, env.roles, Shorter(env.reward), env.mode)

register("shorter-v0", "shorter:build")
"""
"""A family with a reward of its own around that of another."""


def test_command_fails_on_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = rows(tmp_path, ("good", SOUND, SQUARES), ("bad", "def f(x):\n    return 4", SQUARES))
    assert call("audit", "humaneval-v0", "--source", source) == 1
    shown = capsys.readouterr().out
    assert "reference" in shown and "bad" in shown
    assert "2 rows, 2 checked, 0 excluded with a reason; 2 references" in shown
    assert "which explain 0 faults; 1 unexplained faults, 0 notes" in shown


def test_the_command_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = rows(tmp_path, ("good", SOUND, SQUARES))
    assert call("audit", "humaneval-v0", "--source", source, "--repeats", "2", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["healthy"], found["remarks"], found["repeats"]) == (True, [], 2)
    assert found["summary"].startswith("humaneval-v0, test of ")
    assert found["data"]["rows"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["coophuman-v0"], 2, "did you mean 'coophumaneval-v0'"),
        (["humaneval-v0", "--source", "nowhere.jsonl"], 2, "nowhere.jsonl"),
        (["humaneval-v0", "--source", "bundled", "--repeats", "1"], 2, "at least 2"),
        (["humaneval-v0", "--source", "bundled", "--episodes", "none"], 2, "no file none"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("audit", *arguments) == code
    shown = capsys.readouterr().err.strip()
    assert shown.startswith("error: ") and "\n" not in shown and message in shown


def test_a_reward_without_sandbox_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shorter.py").write_text(SHORTER)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    assert call("audit", "shorter:shorter-v0") == 2
    shown = capsys.readouterr().err
    assert "cannot audit Shorter, which has no method copy_with_sandbox" in shown


def test_the_result_is_saved(tmp_path: Path) -> None:
    source = rows(tmp_path, ("bad", "def f(x):\n    return 4", SQUARES))
    path = tmp_path / "audit.json"
    assert call("audit", "humaneval-v0", "--source", source, "--output", str(path)) == 1
    found = json.loads(path.read_text())
    assert not found["healthy"] and found["remarks"][0]["kind"] == "reference"
    missing = tmp_path / "nowhere" / "audit.json"
    with pytest.raises(RunError, match=f"^cannot write {missing}: No such file or directory$"):
        save(audit("humaneval-v0", source, repeats=2), missing)


def test_command_accepts_known_issues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = rows(tmp_path, ("HumanEval/47", "def f(x):\n    return 4\n", SQUARES))
    assert call("audit", "humaneval-v0", "--source", source) == 0
    assert "known" in capsys.readouterr().out
