"""Each method of a unittest module is a case of its own, run apart from the program or inside it."""

from __future__ import annotations

import pytest

from llm_decpomdp.envs.datasets.classeval import case_id, class_tests
from llm_decpomdp.envs.sandbox import Program, Sandbox
from tests.envs.class_examples import SOLUTION, shape_task

sandbox = Sandbox()


def outcomes(test, code=SOLUTION, split=True, own=()):
    tests = class_tests(test, "Shape", split=split, own=frozenset(own))
    execution = sandbox.run(Program((("team", code),), "Shape"), tests)
    assert execution.error is None
    return {case_id(outcome.case): outcome for outcome in execution.tests}


def passes(test, code=SOLUTION, split=True, own=()):
    return {name: outcome.passed for name, outcome in outcomes(test, code, split, own).items()}


def module(*methods, head="", bases="unittest.TestCase"):
    body = "\n\n".join("    " + method.replace("\n", "\n    ") for method in methods)
    return f"import unittest\n{head}\n\nclass T({bases}):\n{body}\n"


both = pytest.mark.parametrize("split", [True, False], ids=["split", "inside"])


@both
def test_methods_fail_and_pass_on_their_own(split):
    test = module(
        "def test_a(self):\n    self.assertEqual(Shape(1, 2).area(), 2)",
        "def test_b(self):\n    self.assertEqual(Shape(1, 2).area(), 3)",
        "def test_c(self):\n    Shape(1, 2).nothing()",
        "def test_d(self):\n    assert Shape(1, 2).done()",
        "def helper(self):\n    raise ValueError",
    )
    found = outcomes(test, split=split)
    assert {name: o.status for name, o in found.items()} == {
        "T.test_a": "passed",
        "T.test_b": "failed",
        "T.test_c": "error",
        "T.test_d": "passed",
    }
    assert found["T.test_b"].message == "AssertionError: 2 != 3"


@both
def test_fixtures_are_honoured_for_each_method(split):
    head = "log = []\n"
    test = module(
        "@classmethod\ndef setUpClass(cls):\n    cls.shape = Shape(2, 2)",
        "def setUp(self):\n    log.append('up')\n    self.addCleanup(log.append, 'clean')",
        "def tearDown(self):\n    log.append('down')",
        "def test_a(self):\n    self.assertEqual(self.shape.area(), 4)\n    self.assertEqual(log, ['up'])",
        "def test_b(self):\n    self.assertEqual(log, ['up', 'down', 'clean', 'up'])",
        head=head,
    )
    assert passes(test, split=split) == {"T.test_a": True, "T.test_b": True}


@both
def test_a_failing_fixture_fails_its_test(split):
    test = module("def tearDown(self):\n    self.fail()", "def test_a(self):\n    pass")
    assert passes(test, split=split) == {"T.test_a": False}


@both
def test_methods_of_base_classes_count_and_several_classes_are_run(split):
    head = (
        "class Common(unittest.TestCase):\n"
        "    def test_one(self):\n        self.assertTrue(Shape(1, 1).done())\n\n"
        "class Plain:\n    def test_not(self):\n        pass\n"
    )
    test = module("def test_two(self):\n    pass", head=head, bases="Common")
    assert passes(test, split=split) == {
        "Common.test_one": True,
        "T.test_one": True,
        "T.test_two": True,
    }


@both
def test_exceptions_subtests_and_skips_are_what_they_are_in_unittest(split):
    code = SOLUTION.replace("return self.width * self.height", "raise KeyError('x')")
    test = module(
        "def test_raises(self):\n    with self.assertRaises(KeyError):\n        Shape(1, 1).area()",
        "def test_not(self):\n    with self.assertRaises(ValueError):\n        Shape(1, 1).area()",
        "def test_sub(self):\n    for n in (1, 2):\n        with self.subTest(n):\n"
        "            self.assertEqual(n, 1)",
        "def test_skip(self):\n    self.skipTest('no')",
    )
    assert passes(test, code, split) == {
        "T.test_not": False,
        "T.test_raises": True,
        "T.test_skip": False,
        "T.test_sub": False,
    }


@both
def test_a_hanging_method_costs_its_own_test_only(split):
    code = SOLUTION.replace("return True", "while True: pass")
    test = module(
        "def test_a(self):\n    Shape(1, 1).done()",
        "def test_b(self):\n    self.assertEqual(Shape(1, 3).area(), 3)",
    )
    tests = class_tests(test, "Shape", split=split)
    limits = type(sandbox.limits)(test_seconds=0.5, program_seconds=5)
    execution = sandbox.run(Program((("team", code),), "Shape"), tests, limits)
    hang, after = execution.tests
    assert hang.status == "timeout" and after.passed


def test_apart_objects_attributes_and_types_cross():
    test = module(
        "def test_a(self):\n    shape = Shape.unit(2)\n    shape.width = 5\n"
        "    self.assertEqual(shape.area(), 10)",
        "def test_b(self):\n    shape = Shape(1, 1)\n    shape.other = [Shape(1, 2), int]\n"
        "    self.assertEqual(shape.other[0].height, 2)\n    self.assertIs(shape.other[1], int)",
        "def test_c(self):\n    shape = Shape(1, 1)\n    shape.inner = shape\n"
        "    self.assertEqual(shape.inner, shape)\n    self.assertNotEqual(shape, Shape(1, 1))",
        "def test_d(self):\n    self.assertEqual(str(Shape(1, 1).name), 'shape')",
    )
    assert all(passes(test).values())


ALWAYS_EQUAL = """
class Yes:
    def __eq__(self, other):
        return True
    def __contains__(self, item):
        return True
    def __len__(self):
        return 3
"""


def test_apart_an_object_that_says_it_equals_everything_does_not():
    code = ALWAYS_EQUAL + SOLUTION.replace("return self.width * self.height", "return Yes()")
    test = module(
        "def test_a(self):\n    self.assertEqual(Shape(1, 2).area(), 2)",
        "def test_b(self):\n    self.assertIn(2, Shape(1, 2).area())",
    )
    assert not any(passes(test, code).values())
    # Which is why tests run apart where they can.
    assert all(passes(test, code, split=False).values())


MAGIC = """
class Magic:
    told = []
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args: self.told.append(args) or True
    def answer(self, *other):
        self.told.extend(other)
        return 0
    __sub__ = __rsub__ = __add__ = __mul__ = __truediv__ = __abs__ = __round__ = __float__ = answer
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = lambda self, other: self.told.append(other) or True
    def __iter__(self):
        return iter([])
"""
MAGICAL = MAGIC + SOLUTION.replace("return self.width * self.height", "return Magic()")
DECIDED_THERE = [
    "self.assertAlmostEqual(Shape(1, 2).area(), 2.5)",
    "self.assertAlmostEqual(2.5, Shape(1, 2).area())",
    "self.assertAlmostEqual(Shape(1, 2).area(), 2.5, delta=1)",
    "self.assertTrue(abs(Shape(1, 2).area() - 2.5) < 1)",
    "self.assertEqual(Shape(1, 2).area() - 2.5, 0)",
    "self.assertFalse(Shape(1, 2).area() - 2.5)",
    "self.assertEqual(Shape(1, 2).area() * 2.5, 0)",
    "self.assertEqual(Shape(1, 2).area() / 2.5, 0)",
    "self.assertEqual(Shape(1, 2).area() + 2.5, 0)",
    "self.assertEqual(round(Shape(1, 2).area()), 0)",
    "self.assertEqual(float(Shape(1, 2).area()), 0)",
    "self.assertGreater(Shape(1, 2).area(), 2.5)",
    "self.assertLessEqual(2.5, Shape(1, 2).area())",
    "self.assertIn(2.5, Shape(1, 2).area())",
    "self.assertTrue(Shape(1, 2).area().startswith('2.5'))",
    "self.assertTrue({2.5}.issubset(Shape(1, 2).area()))",
    "self.assertTrue(Shape(1, 2).area().issuperset({2.5}))",
    "self.assertEqual(Shape(1, 2).area().count(2.5), 1)",
]


@pytest.mark.parametrize("line", DECIDED_THERE)
def test_apart_an_object_neither_learns_nor_decides_what_is_expected(line):
    last = "def test_z(self):\n    self.assertEqual(Shape.told(), 0)"
    told = "\n    @staticmethod\n    def told():\n        return len(Magic.told)\n"
    found = passes(module(f"def test_a(self):\n    {line}", last), MAGICAL + told)
    assert found == {"T.test_a": False, "T.test_z": True}


ARITHMETIC = """
class Shape:
    def __init__(self, width):
        self.width = width
    def __add__(self, other):
        return Shape(self.width + other.width)
    def __mul__(self, other):
        return Shape(self.width * other) if isinstance(other, int) else self.width * other.width
    def count(self, value):
        return int(self.width == value)
"""


def test_apart_the_arithmetic_and_methods_of_the_skeleton_work():
    test = module(
        "def test_a(self):\n    self.assertEqual((Shape(1) + Shape(2)).width, 3)",
        "def test_b(self):\n    self.assertEqual((Shape(2) * 5).width, 10)",
        "def test_c(self):\n    self.assertEqual(Shape(2) * Shape(4), 8)",
        "def test_d(self):\n    self.assertEqual(Shape(2).count(2), 1)",
    )
    assert all(passes(test, ARITHMETIC, own={"__add__", "__mul__", "count"}).values())
    assert not any(passes(test, ARITHMETIC).values())
    liar = ARITHMETIC.replace("return Shape(self.width * other) if", "return 10 if")
    test = module("def test_b(self):\n    self.assertEqual(Shape(2) * 5, 10)")
    assert passes(test, liar, own={"__mul__"}) == {"T.test_b": False}


def test_apart_the_tests_of_a_task_know_the_names_of_its_skeleton():
    assert {"__init__", "scaled", "done"} <= shape_task().tests.methods


def test_apart_a_message_tells_no_address():
    found = outcomes(module("def test_a(self):\n    self.assertEqual(Shape(1, 2), 2)"))
    assert found["T.test_a"].message == "AssertionError: <Shape object> != 2"


def test_apart_a_patched_unittest_changes_nothing():
    code = "import unittest\nunittest.TestCase.assertEqual = lambda *args: None\n" + SOLUTION
    test = module("def test_a(self):\n    self.assertEqual(Shape(1, 2).area(), 9)")
    assert passes(test, code) == {"T.test_a": False}


@both
def test_files_can_be_shared(split):
    test = module(
        "def test_a(self):\n    with open('x.txt', 'w') as file:\n        file.write('1')\n"
        "    self.assertEqual(Shape(1, 1).read(), '1')"
    )
    code = SOLUTION.replace(
        "def done(self):",
        "def read(self):\n        return open('x.txt').read()\n\n    def done(self):",
    )
    if sandbox.layers()["private folder"]:
        pytest.skip("programs cannot write files here")
    assert passes(test, code, split) == {"T.test_a": True}


def test_a_case_is_its_name_and_its_text():
    (case,) = class_tests(module("def test_a(self):\n    pass"), "Shape").cases
    assert case_id(case) == "T.test_a"
    assert case == "T.test_a\ndef test_a(self):\n    pass"


def test_what_does_not_parse_is_refused():
    with pytest.raises(ValueError, match="does not parse"):
        class_tests("class", "Shape")
