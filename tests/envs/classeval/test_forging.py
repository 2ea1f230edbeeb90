"""Programs that earn nothing for classes by claims instead of answers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llm_decpomdp.envs.classeval.reward import ClassReward
from llm_decpomdp.envs.classeval.roles import class_team
from llm_decpomdp.envs.datasets.classeval import ClassTask, load_classes
from llm_decpomdp.envs.sandbox import Sandbox
from tests.attacks.entries import ENTRIES
from tests.envs.class_examples import ROW, SKELETON, class_task

TEAM = class_team(1, "balanced")
REWARD = ClassReward(TEAM, Sandbox())
PLAIN = ("None", "True", "1", "[]")
YES = ENTRIES["comparison_tricks/an_object_whose_attributes_all_say_yes"].completions["main"]
SAYS_YES = "def make():\n" + YES.partition("def make")[0].replace("\n", "\n    ") + "return Yes()\n"
REAL = Path(os.environ.get("LLM_DECPOMDP_DATA", "/nowhere")) / "classeval.jsonl"


def passed(task: ClassTask, answer: str, around: str = "") -> set[str]:
    """The tests that pass if every method answers this."""
    (role,) = TEAM
    bodies = [
        f"def {name}(*_, **__):\n    return {'None' if name == '__init__' else answer}\n"
        for name in role.methods(task)
    ]
    verdict = REWARD(task, {role.agent: "\n".join([around, *bodies])})
    return {test.case for test in verdict.analysis.tests if test.passed}


def gains(task: ClassTask) -> set[str]:
    """What an object that says yes to everything passes, and no plain value does."""
    plain = [passed(task, answer) for answer in PLAIN]
    return passed(task, "make()", SAYS_YES) - set().union(*plain)


@pytest.mark.parametrize(
    "task", load_classes("test", "bundled").tasks, ids=lambda task: task.task_id
)
def test_an_object_that_says_yes_earns_no_more_than_a_plain_value(task):
    assert not gains(task)


FORGERY = """
def area(self):
    import unittest
    unittest.TestCase.assertEqual = lambda *arguments: None
    return 0
"""
TEST = """
import json, os, unittest

class ShapeTest(unittest.TestCase):
    def test_area(self):
        with open("in.json", "w") as file:
            json.dump({"all": [1, 2]}, file)
        self.assertTrue(os.path.exists("in.json"))
        area = Shape(1, 2).area()
        self.assertEqual(area, 2)
"""


def test_a_program_cannot_forge_the_tests_of_a_class_with_files():
    task = class_task(0, {**ROW, "skeleton": SKELETON, "test": TEST})
    assert REWARD(task, {TEAM[0].agent: FORGERY}).components["tests"] == 0.0


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_file(), reason="needs LLM_DECPOMDP_DATA with classeval.jsonl")
def test_every_real_class_is_tested_apart_and_no_object_gains():
    tasks = load_classes("test", str(REAL)).tasks
    assert not REWARD.forgeable(tasks)
    differ = {f"CalculatorTestPrecedence.test_precedence_{n}" for n in (3, 4, 5)}
    found = {case.partition("\n")[0] for task in tasks for case in gains(task)}
    assert found <= differ  # they ask whether two answers differ
