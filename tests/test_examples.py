"""The examples run as they are, and the teams in them learn."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from llm_decpomdp import make
from tests.support.processes import ROOT, python

LEARNERS = ("training_loop.py", "own_environment.py")
"""The examples that train from scratch, offline and in seconds."""


@pytest.mark.parametrize("name", [pytest.param(LEARNERS[0], marks=pytest.mark.slow), LEARNERS[1]])
def test_an_example_runs_offline_and_its_team_learns(name: str) -> None:
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    run = python(str(ROOT / "examples" / name), env=environment | {"PATH": ""}, timeout=120)
    rewards = [float(found) for found in re.findall(r"mean reward (\d\.\d\d)", run.stdout)]
    assert len(rewards) == 6
    assert rewards[-1] >= 0.9 and rewards[-1] > rewards[0], rewards


def test_lessons_are_references_that_pass_when_they_are_delegated(tmp_path: Path) -> None:
    command = [
        str(ROOT / "examples" / "coder_pair" / "delegated_references.py"),
        "humaneval-v0",
        "test[:8]",
    ]
    environment = {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    run = python(*command, str(tmp_path / "lessons.jsonl"), env=environment)
    assert "8 of 8 references work" in run.stdout
    rows = [json.loads(line) for line in (tmp_path / "lessons.jsonl").read_text().splitlines()]
    texts = {row["prompt"]: row["completion"] for row in rows}
    env = make("humaneval-v0", split="test[:8]")
    for task in env.tasks.tasks:
        prompts, _ = env.reset(options={"task_id": task.task_id})
        _, rewards, *_ = env.step({agent: texts[prompt] for agent, prompt in prompts.items()})
        assert set(rewards.values()) == {3.0}
