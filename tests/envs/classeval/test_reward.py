"""The reward of classes, and tests that programs could forge."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llm_decpomdp import answers, make
from llm_decpomdp.envs.classeval.reward import FORGEABLE, ClassReward
from llm_decpomdp.envs.classeval.roles import class_team
from llm_decpomdp.envs.datasets.classeval import ClassTask, load_classes
from llm_decpomdp.envs.sandbox import Sandbox
from tests.attacks.entries import ENTRIES
from tests.envs.class_examples import ROW, SKELETON, SOLUTION, TEST, class_task, judge, shape_task

AREA = "def area(self):\n    return self.width * self.height"
SCALED = "def scaled(self, factor, *, twice=False):\n    return self.area() * factor * (2 if twice else 1)"
REST = (
    "@property\ndef name(self):\n    return getattr(self, '_name', 'shape')\n\n"
    "@name.setter\ndef name(self, text):\n    self._name = text\n\n"
    "@staticmethod\ndef unit(size=1):\n    return Shape(size, size)"
)


def points(*completions, **options):
    return dict(judge(list(completions), **options).components)


def test_all_methods_and_tests_are_full_marks():
    verdict = judge([f"{AREA}\n\n{REST}", SCALED])
    assert verdict.reward == 6.0 and verdict.solved
    assert [test.passed for test in verdict.analysis.tests] == [True] * 4


@pytest.mark.parametrize(
    "completions",
    [
        ("", ""),
        ("no code", "def"),
        (SKELETON, SKELETON),
        ("def area(self):\n    pass", ""),
        ("import os", "x = 1"),
    ],
    ids=["empty", "prose", "skeleton", "stub", "no method"],
)
def test_a_team_that_wrote_no_method_earns_nothing(completions):
    verdict = judge(list(completions))
    assert verdict.reward == 0.0 and not verdict.solved
    assert {test.status for test in verdict.analysis.tests} == {"not_run"}


def test_a_team_that_wrote_nothing_earns_nothing_even_where_stubs_pass():
    test = "import unittest\n\nclass T(unittest.TestCase):\n    def test(self):\n        Shape(1, 1).area()\n"
    assert judge(["", ""], test=test).reward == 0.0


FIRST = f"{AREA}\n\n{REST}"


@pytest.mark.parametrize(
    ("completions", "syntax", "tests"),
    [
        ((AREA, ""), 0.5, 1.0),
        ((FIRST, ""), 1.5, 3.0),
        ((FIRST, "def scaled(self, factor:\n    return 1"), 1.5, 3.0),
        ((f"{FIRST}\n\n{SCALED}", ""), 1.5, 4.0),
    ],
    ids=["one method", "one agent", "a broken method", "a team-mate's method"],
)
def test_syntax_is_a_share_of_methods_and_tests_of_those_passed(completions, syntax, tests):
    assert points(*completions) == {"syntax": syntax, "tests": tests, "overlap": 0.0}


def test_methods_that_several_wrote_cost_their_share():
    everything = f"{AREA}\n\n{REST}\n\n{SCALED}"
    verdict = judge([everything, everything])
    assert dict(verdict.components) == {"syntax": 2.0, "tests": 4.0, "overlap": -1.0}
    assert verdict.reward == 5.0 and not verdict.solved
    assert points(FIRST, f"{SCALED}\n\n{AREA}")["overlap"] == -0.25


def test_a_class_that_does_not_load_fails_every_test():
    verdict = judge([FIRST, "@missing\n" + SCALED])
    assert verdict.reward == 2.0
    error = verdict.details["error"]
    assert error["message"].startswith("NameError")
    assert (error["origin"], error["line"]) == ("coder_1", 1)


def test_an_exception_is_traced_to_the_agent_and_its_own_line():
    bad = "import math\n\ndef scaled(self, factor, *, twice=False):\n    x = 1\n    return math.nothing"
    failed = next(test for test in judge([FIRST, bad]).analysis.tests if not test.passed)
    assert (failed.origin, failed.line) == ("coder_1", 5)


def test_equal_answers_get_equal_verdicts():
    team = [FIRST, f"{SCALED}\n\n{AREA}"]
    assert judge(team) == judge(team)


def test_an_async_method_is_written_and_run():
    skeleton = "class Shape:\n    async def area(self):\n        pass\n"
    test = (
        "import unittest\n\n\nclass T(unittest.TestCase):\n    def test(self):\n"
        "        with self.assertRaises(StopIteration) as caught:\n            Shape().area().send(None)\n"
        "        self.assertEqual(caught.exception.value, 4)\n"
    )
    method = "async def area(self):\n    return 4"
    solution = skeleton.replace("pass", "return 4")
    verdict = judge([method], solution_code=solution, skeleton=skeleton, test=test)
    assert verdict.reward == 6.0


def test_tests_with_files_run_apart_too():
    test = TEST.replace("def setUp(self):", "def setUp(self):\n        open('x.txt', 'w').close()")
    reward = ClassReward(class_team(2, "balanced"), Sandbox())
    assert reward.is_split(shape_task())
    assert reward.is_split(shape_task(task_id="Shape/1", test=test))
    if not reward.sandbox.layers()["private folder"]:
        assert judge([FIRST, SCALED], test=test).reward == 6.0


EQUAL = TEST + "\n    def test_equal(self):\n        self.assertEqual(Shape(1, 2), Shape(1, 2))\n"
COMPARED = "    def __eq__(self, other):\n        return self.width == other.width\n\n    def done"


def test_tests_that_only_work_in_the_program_s_process_run_there_only_if_that_is_allowed():
    team = class_team(1, "parameters")
    task = shape_task(test=EQUAL, solution_code=SOLUTION.replace("    def done", COMPARED))
    answers = {role.agent: role.reference(task) for role in team}
    for allowed, points in ((False, 3.2), (True, 4.0)):
        reward = ClassReward(team, Sandbox(), allowed)
        assert not reward.is_split(task)
        assert reward(task, answers).components["tests"] == pytest.approx(points)
    assert ClassReward(team, Sandbox()).forgeable([task, shape_task(task_id="Shape/1")]) == {
        "Shape/0": FORGEABLE
    }


@pytest.mark.parametrize(
    ("num_agents", "by"),
    [(1, "parameters"), (2, "balanced"), (3, "dependency"), (5, "parameters")],
)
def test_every_bundled_class_has_full_marks_for_its_own_solution(by, num_agents):
    env = make("classeval-v0", source="bundled", num_agents=num_agents, by=by)
    for task in env.tasks.tasks:
        env.reset(options={"task_id": task.task_id})
        verdict = env.reward(task, {agent: answers(env).reference(agent) for agent in env.agents})
        assert verdict.reward == 6.0 and env.reward.is_split(task), task.task_id


def test_a_solution_with_a_helper_method_that_the_skeleton_lacks_has_full_marks():
    solution = SOLUTION.replace("self.width * self.height\n", "self._product()\n").replace(
        "    def done",
        "    def _product(self):\n        return self.width * self.height\n\n    def done",
    )
    task = shape_task(solution_code=solution)
    team = class_team(3, "balanced")
    verdict = ClassReward(team, Sandbox())(
        task, {role.agent: role.reference(task) for role in team}
    )
    assert verdict.reward == 6.0


REAL = Path(os.environ.get("LLM_DECPOMDP_DATA", "/nowhere")) / "classeval.jsonl"


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_file(), reason="needs LLM_DECPOMDP_DATA with classeval.jsonl")
@pytest.mark.parametrize(
    ("num_agents", "by"), [(2, "balanced"), (1, "parameters"), (3, "dependency")]
)
def test_the_real_solutions_have_full_marks_but_for_the_known_issues(num_agents, by):
    tasks = load_classes("test", str(REAL))
    assert len(tasks) + len(tasks.excluded) == 100
    team = class_team(num_agents, by)
    reward = ClassReward(team, Sandbox())
    missed = {
        task.task_id
        for task in tasks.tasks
        if not reward(task, {role.agent: role.reference(task) for role in team}).solved
    }
    assert missed <= set(tasks.known_issues)


def test_annotations_of_the_class_itself_work_with_an_import_from_the_future():
    code = SOLUTION.replace("def unit(size=1):", "def unit(size=1) -> Shape:")
    assert judge([code]).components["tests"] == 0.0
    assert judge(["from __future__ import annotations\n" + code]).components["tests"] == 4.0


TEAM = class_team(1, "balanced")
REWARD = ClassReward(TEAM, Sandbox())
PLAIN = ("None", "True", "1", "[]")
YES = ENTRIES["comparison_tricks/an_object_whose_attributes_all_say_yes"].completions["main"]
SAYS_YES = "def make():\n" + YES.partition("def make")[0].replace("\n", "\n    ") + "return Yes()\n"


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


def test_an_object_that_says_yes_earns_no_more_than_a_plain_value():
    for task in load_classes("test", "bundled").tasks:
        assert not gains(task), task.task_id


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
