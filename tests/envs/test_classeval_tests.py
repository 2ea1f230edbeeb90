"""Each method of a unittest module is a case of its own, run apart from the program or inside it."""

from __future__ import annotations

import pytest

from llm_decpomdp.envs.class_tests import HOST, HOST_CODE, case_id, class_tests
from llm_decpomdp.envs.sandbox import Program, Sandbox
from tests.envs.class_examples import SOLUTION

sandbox = Sandbox()


def outcomes(test, code=SOLUTION, split=True):
    tests = class_tests(test, "Shape", split=split)
    segments = (("team", code), ("host", HOST_CODE)) if split else (("team", code),)
    execution = sandbox.run(Program(segments, HOST if split else "Shape"), tests)
    assert execution.error is None
    return {case_id(outcome.case): outcome for outcome in execution.tests}


def passes(test, code=SOLUTION, split=True):
    return {name: outcome.passed for name, outcome in outcomes(test, code, split).items()}


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
    segments = (("team", code), ("host", HOST_CODE)) if split else (("team", code),)
    limits = type(sandbox.limits)(test_seconds=0.5, program_seconds=5)
    execution = sandbox.run(Program(segments, HOST if split else "Shape"), tests, limits)
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
    assert all(
        passes(test, code, split=False).values()
    )  # which is why tests run apart where they can


def test_apart_a_patched_unittest_changes_nothing():
    code = "import unittest\nunittest.TestCase.assertEqual = lambda *args: None\n" + SOLUTION
    test = module("def test_a(self):\n    self.assertEqual(Shape(1, 2).area(), 9)")
    assert passes(test, code) == {"T.test_a": False}


def test_inside_files_can_be_shared():
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
    assert passes(test, code, split=False) == {"T.test_a": True}
    assert passes(test, code, split=True) == {"T.test_a": False}


def test_a_case_is_its_name_and_its_text():
    (case,) = class_tests(module("def test_a(self):\n    pass"), "Shape").cases
    assert case_id(case) == "T.test_a"
    assert case == "T.test_a\ndef test_a(self):\n    pass"


def test_what_does_not_parse_is_refused():
    with pytest.raises(ValueError, match="does not parse"):
        class_tests("class", "Shape")
