"""A small class for tests of completing classes, and helpers around it."""

from __future__ import annotations

from llm_decpomdp.envs.classeval.reward import ClassReward
from llm_decpomdp.envs.classeval.roles import class_team
from llm_decpomdp.envs.datasets.classeval import ClassTask, class_task
from llm_decpomdp.envs.sandbox import Sandbox

SKELETON = '''import math


class Shape(object):
    """A shape."""

    SIDES = 4

    def __init__(self, width, height):
        self.width = width
        self.height = height

    def area(self):
        """The area."""

    @property
    def name(self):
        """The name."""

    @name.setter
    def name(self, text):
        """Set the name."""

    @staticmethod
    def unit(size=1):
        """A square."""
        pass

    def scaled(self, factor, *, twice=False):
        """The area of a larger one."""
        raise NotImplementedError

    def done(self):
        return True
'''

SOLUTION = """import math


class Shape(object):
    SIDES = 4

    def __init__(self, width, height):
        self.width = width
        self.height = height

    def area(self):
        return self.width * self.height

    @property
    def name(self):
        return getattr(self, "_name", "shape")

    @name.setter
    def name(self, text):
        self._name = text

    @staticmethod
    def unit(size=1):
        return Shape(size, size)

    def scaled(self, factor, *, twice=False):
        area = self.area()
        if twice:
            area *= 2
        return area * factor

    def done(self):
        return True
"""

TEST = """import unittest


class ShapeTestArea(unittest.TestCase):
    def setUp(self):
        self.shape = Shape(2, 3)

    def test_area(self):
        self.assertEqual(self.shape.area(), 6)

    def test_scaled(self):
        self.assertEqual(self.shape.scaled(2), 12)
        self.assertEqual(self.shape.scaled(2, twice=True), 24)


class ShapeTestName(unittest.TestCase):
    def test_name(self):
        shape = Shape(1, 1)
        self.assertEqual(shape.name, "shape")
        shape.name = "box"
        self.assertEqual(shape.name, "box")

    def test_unit(self):
        self.assertEqual(Shape.unit(3).area(), 9)
"""

ROW = {
    "task_id": "Shape/0",
    "class_name": "Shape",
    "skeleton": SKELETON,
    "test": TEST,
    "solution_code": SOLUTION,
}


def shape_task(**changes: object) -> ClassTask:
    """The class, some fields of its row changed."""
    return class_task(0, {**ROW, **changes})


def judge(completions: list[str], by: str = "parameters", **changes: object):
    """The verdict of a team's completions."""
    team = class_team(len(completions), by)
    reward = ClassReward(team, Sandbox(cache_size=0))
    answers = {role.agent: text for role, text in zip(team, completions, strict=True)}
    return reward(shape_task(**changes), answers)
