from __future__ import annotations

import json
from pathlib import Path

import pytest

from llm_decpomdp import registry
from llm_decpomdp.benchmarks.audit.run import audit, save
from llm_decpomdp.benchmarks.config.errors import RunError
from tests.benchmarks.audits import SOUND, rows
from tests.benchmarks.cli.test_commands import call
from tests.support.programs import SQUARES

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
    told = capsys.readouterr().err.strip()
    assert told.startswith("error: ") and "\n" not in told and message in told


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
