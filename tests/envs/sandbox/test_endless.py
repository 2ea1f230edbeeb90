"""Tests that do not end are told of by their tasks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import llm_decpomdp
from llm_decpomdp.envs.sandbox import Sandbox
from llm_decpomdp.envs.sandbox import program as sandbox_program
from tests.envs.sandboxed import SHORT

LOOP = (
    "def check(candidate):\n    x = candidate(3)\n    while x > 0:\n        x += 0\n    assert x\n"
)
PLAIN = "def check(candidate):\n    assert candidate(3) == 6\n"


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Grades a program on a row with a test that loops, or on one without, with short limits."""
    monkeypatch.setattr(sandbox_program, "_PROGRAMS", {})
    row = {"prompt": 'def double(x):\n    """Double."""\n', "entry_point": "double"}
    rows = [{**row, "task_id": name, "test": test} for name, test in (("a", LOOP), ("b", PLAIN))]
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in rows))
    env = llm_decpomdp.make("humaneval-v0", source=str(path), num_agents=1)
    env.reward = replace(env.reward, sandbox=Sandbox(SHORT))  # type: ignore[type-var]

    def grade(task: str, body: str) -> None:
        env.reset(options={"task_id": task})
        env.step({"main_0": f"def double(x):\n    {body}"})

    return grade


def test_a_test_that_does_not_end_for_two_programs_is_told_of_once_by_its_task(
    play: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for body in ("return x + x", "return x + x"):  # one program
        play("a", body)
    assert not caplog.records
    for body in ("return 2 * x", "return x * 2"):
        play("a", body)
    (record,) = caplog.records
    message = record.getMessage()
    assert message.startswith("task 'a': the test did not end on the program's values within 0.7 s")
    assert "llm-decpomdp check data" in message


def test_programs_that_do_not_end_say_nothing_of_a_test(
    play: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for body in ("while True: pass\n    return 1", "while x: pass\n    return 1"):
        play("b", body)
    assert not caplog.records
