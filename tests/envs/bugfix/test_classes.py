"""Classes are repaired method by method, as programs are function by function."""

from __future__ import annotations

import pytest

import llm_decpomdp
from llm_decpomdp.envs.bugfix.reward import MAXIMUM
from tests.envs.class_examples import ROW
from tests.envs.own_rows import write_lines

CODE = '''from math import floor


class Shelf:
    """Books by width."""

    def __init__(self, room):
        self.room = room
        self.widths = []

    def put(self, width):
        """Whether there was room."""
        if width > self.left():
            return False
        self.widths.append(width)
        return True

    def left(self):
        # what is free
        return floor(self.room) - sum(self.widths)
'''
TEST = """
import unittest


class ShelfTest(unittest.TestCase):
    def test_left(self):
        self.assertEqual(Shelf(9.5).left(), 9)

    def test_put(self):
        shelf = Shelf(5)
        self.assertEqual([shelf.put(3), shelf.put(3), shelf.put(2)], [True, False, True])
        self.assertEqual(shelf.left(), 0)
"""
BUG = "Own/4:comparison@13:18"  # `width < self.left()`


@pytest.fixture
def env(tmp_path):
    """Two agents: `__init__` and `left` are the first one's, `put` with its bug the second one's."""
    skeleton = CODE.partition("        if width")[0] + "\n    def left(self):\n        pass\n"
    row = {
        "task_id": "Own/4",
        "class_name": "Shelf",
        "skeleton": skeleton,
        "test": TEST,
        "solution_code": CODE,
    }
    path = write_lines(tmp_path / "classes.jsonl", [row])
    env = llm_decpomdp.make("bugfix-v0", source=str(path), split="all", sandbox_slice="all")
    env.reset(options={"task_id": BUG})
    return env


def as_it_is(env):
    """Everybody's methods without a change."""
    return {
        role.agent: "\n\n".join(
            env.task.given_functions[name] for name in role.owned_functions(env.task)
        )
        for role in env.roles
    }


def test_methods_are_dealt_out_and_shown_in_their_class(env):
    assert [role.owned_functions(env.task) for role in env.roles] == [
        ("__init__", "left"),
        ("put",),
    ]
    assert env.task.faulty == ("put",)
    prompt = env.reset(options={"task_id": BUG})[0]["fixer_1"]
    assert "if width < self.left():" in prompt and "Failed case: ShelfTest.test_put -> " in prompt
    assert "width > self.left()" not in prompt


def test_undoing_the_bug_earns_full_marks_in_any_form(env):
    gold = dict(llm_decpomdp.answers(env).references)
    in_class = "Here:\n```python\nclass Shelf:\n" + "\n".join(
        f"    {line}" for line in gold["fixer_1"].splitlines()
    )
    for answer in (gold["fixer_1"], in_class, CODE):
        verdict = env.reward(env.task, {**gold, "fixer_1": answer})
        assert verdict.reward == MAXIMUM and verdict.solved


def test_leaving_the_class_as_it_is_earns_half_a_point_and_nothing_nothing(env):
    assert env.reward(env.task, as_it_is(env)).reward == 0.5
    assert env.reward(env.task, dict.fromkeys(env.agents, "")).reward == 0.0


def test_methods_of_team_mates_are_left_out(env):
    theirs = "def put(self, width):\n    return None\n"
    answers = {"fixer_0": as_it_is(env)["fixer_0"] + "\n\n" + theirs}
    verdict = env.reward(
        env.task, {**answers, "fixer_1": llm_decpomdp.answers(env).reference("fixer_1")}
    )
    assert verdict.reward == MAXIMUM


def test_a_repair_of_a_method_of_a_team_mate_counts_for_nothing(env):
    answers = as_it_is(env)
    mine = answers["fixer_0"] + "\n\n" + llm_decpomdp.answers(env).reference("fixer_1")
    for other in (answers["fixer_1"], ""):
        verdict = env.reward(env.task, {"fixer_0": mine, "fixer_1": other})
        assert verdict.components["fixed"] == 0.0 and not verdict.solved


def test_a_regression_and_additions_cost(env):
    broken = as_it_is(env) | {"fixer_0": "def left(self):\n    return 'none'\n"}
    assert env.reward(env.task, broken).components["regressed"] == -1.0
    gold = dict(llm_decpomdp.answers(env).references)
    larger = gold | {"fixer_0": gold["fixer_0"] + "\n\ndef spare(self):\n    return 1\n"}
    verdict = env.reward(env.task, larger)
    assert verdict.solved and 2.5 <= verdict.reward < MAXIMUM


def test_errors_name_the_line_in_the_code_of_their_author(env):
    answers = as_it_is(env) | {"fixer_1": "\n\ndef put(self, width):\n    return (\n"}
    prompts, *_ = env.step(answers)
    assert "SyntaxError at line 4" in prompts["fixer_1"]
    assert "ERROR (in code of a team-mate)" in prompts["fixer_0"]
    env.reset(options={"task_id": BUG})
    prompts, *_ = env.step(as_it_is(env) | {"fixer_1": "def put(self, width):\n    return 1 / 0\n"})
    assert "(line 2 of your code)" in prompts["fixer_1"]
    assert "line 2" not in prompts["fixer_0"]


def test_a_property_with_its_setter_is_one_method(tmp_path):
    path = write_lines(tmp_path / "classes.jsonl", [ROW])
    env = llm_decpomdp.make("bugfix-v0", source=str(path), split="all")
    env.reset(seed=0)
    assert env.task.functions.count("name") == 1
    assert env.task.given_functions["name"].count("def name") == 2
    for task in env.tasks.tasks:
        env.reset(options={"task_id": task.task_id})
        gold = dict(llm_decpomdp.answers(env).references)
        assert env.reward(task, gold).reward == MAXIMUM


def test_a_class_whose_solution_fails_is_left_out_with_a_warning(tmp_path, caplog):
    wrong = {
        **ROW,
        "task_id": "Shape/9",
        "solution_code": ROW["solution_code"].replace("h * s", "h - s"),
    }
    path = write_lines(tmp_path / "classes.jsonl", [wrong, ROW])
    env = llm_decpomdp.make("bugfix-v0", source=str(path), split="all")
    env.reset(seed=0)
    assert "Shape/9 is left out" in caplog.text
    assert {task.task_id.partition(":")[0] for task in env.tasks.tasks} == {"Shape/0"}
