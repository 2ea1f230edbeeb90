"""The examples run as they are, and the teams in them learn."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from llm_decpomdp import make
from llm_decpomdp.benchmarks.runs.setup import load_config
from llm_decpomdp.benchmarks.suites.suite import load_suite
from tests.support.processes import ROOT, python

PAIR = ROOT / "studies" / "coder_pair"

LEARNERS = ("training_loop.py", "own_environment.py", "aec_game.py")
"""The examples that train from scratch, offline and in seconds."""


@pytest.mark.parametrize("name", [pytest.param(LEARNERS[0], marks=pytest.mark.slow), *LEARNERS[1:]])
def test_an_example_runs_offline_and_its_team_learns(name: str) -> None:
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    run = python(str(ROOT / "examples" / name), env=environment | {"PATH": ""}, timeout=300)
    rewards = [float(found) for found in re.findall(r"mean reward (-?\d\.\d\d)", run.stdout)]
    assert len(rewards) == 6
    assert rewards[-1] >= 0.9 and rewards[-1] > rewards[0], rewards


def test_an_aec_game_takes_no_more_than_25_lines() -> None:
    tree = ast.parse((ROOT / "examples" / "aec_game.py").read_text())
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    assert len(statements) - 1 <= 25  # without the docstring


def lessons(path: Path, *tested: str) -> str:
    """Write lessons of HumanEval's first problems, and return what is told of it."""
    words = ["humaneval-v0", "test[:8]", str(path), *tested]
    environment = {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    return python(str(PAIR / "delegated_references.py"), *words, env=environment).stdout


def test_lessons_are_references_that_pass_when_they_are_delegated(tmp_path: Path) -> None:
    assert "8 of 8 references pass" in lessons(tmp_path / "lessons.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "lessons.jsonl").read_text().splitlines()]
    texts = {row["prompt"]: row["completion"] for row in rows}
    env = make("humaneval-v0", split="test[:8]")
    for task in env.tasks.tasks:
        prompts, _ = env.reset(options={"task_id": task.task_id})
        actions = {agent: texts[prompt] for agent, prompt in prompts.items()}
        assert task.prompt.splitlines()[-2] not in actions["aux_0"]  # of its docstring
        _, rewards, *_ = env.step(actions)
        assert set(rewards.values()) == {3.0}


def test_problems_that_are_tested_give_no_lessons(tmp_path: Path) -> None:
    assert "0 of 0 references pass" in lessons(tmp_path / "lessons.jsonl", "humaneval-v0")


def test_the_suite_of_two_coders_is_one_of_configurations_that_load() -> None:
    suite = load_suite(PAIR / "suite.yaml")
    assert {arm.config for arm in suite.arms} == {"mbpp.yaml", "coophumaneval.yaml"}
    for arm in suite.arms:
        load_config(PAIR / arm.config, arm.override, folder=PAIR)
