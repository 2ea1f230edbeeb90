"""The audit of classes and of programs with bugs."""

from __future__ import annotations

import json
from pathlib import Path

from llm_decpomdp import make
from llm_decpomdp.benchmarks.audit.run import audit
from tests.benchmarks.audits import only
from tests.support.programs import SQUARES

STACK = '''class Pile:
    """A pile of things."""

    def __init__(self):
        """
        Starts empty.
        >>> Pile().size()
        0
        """
        self.things = []

    def push(self, thing):
        """
        Adds a thing.
        >>> pile = Pile()
        >>> pile.push(3)
        >>> pile.size()
        {size}
        """

    def size(self):
        """How many things there are. >>> unknown.size()"""
'''
STACK_TEST = """import unittest
class PileTest(unittest.TestCase):
    def test_push(self):
        pile = Pile()
        pile.push(1)
        self.assertEqual(pile.size(), 1)
    def test_size(self):
        self.assertEqual(Pile().size(), 0)
"""
STACK_CODE = """class Pile:
    def __init__(self):
        self.things = []
    def push(self, thing):
        self.things.append(thing)
    def size(self):
        return {size}
"""


def class_row(tmp_path: Path, size: str, example: str = "1", test: str = STACK_TEST) -> str:
    path = tmp_path / "classes.jsonl"
    row = {
        "task_id": "Own_1",
        "class_name": "Pile",
        "skeleton": STACK.replace("{size}", example),
        "test": test,
        "solution_code": STACK_CODE.replace("{size}", size),
    }
    path.write_text(json.dumps(row) + "\n")
    return str(path)


def test_a_class_is_audited_with_the_reward_of_its_environment(tmp_path: Path) -> None:
    sound = audit("classeval-v0", class_row(tmp_path, "len(self.things)"), repeats=2)
    assert sound.remarks == () and (sound.references, sound.programs) == (1, 1)
    wrong = audit("classeval-v0", class_row(tmp_path, "len(self.things) + 1"), repeats=2)
    assert only(wrong, "reference").fault
    assert "PileTest.test_push: AssertionError: 2 != 1" in only(wrong, "reference").text


def test_a_class_whose_solution_depends_on_chance_is_flaky(tmp_path: Path) -> None:
    size = "len(self.things) + (hash('a') % 2)"
    result = audit("classeval-v0", class_row(tmp_path, size), repeats=8)
    assert "PileTest.test_push" in only(result, "flaky").text and not result.healthy


def test_a_class_whose_examples_its_solution_breaks_gets_a_note(tmp_path: Path) -> None:
    result = audit("classeval-v0", class_row(tmp_path, "len(self.things)", "2"), repeats=2)
    remark = only(result, "example")
    assert not remark.fault and "pile.size() is not 2 but 1" in remark.text


EQUALITY = """
import unittest

class PileTest(unittest.TestCase):
    def test_push(self):
        self.assertEqual(Pile(), Pile())

    def test_size(self):
        self.assertEqual(Pile().size(), 0)
"""


def test_class_that_needs_its_own_process_is_excluded(tmp_path: Path) -> None:
    source = class_row(tmp_path, "len(self.things)", test=EQUALITY)
    row = json.loads(Path(source).read_text())
    equal = (
        "    def __eq__(self, other):\n        return self.things == other.things\n\n    def size("
    )
    row["solution_code"] = row["solution_code"].replace("    def size(", equal)
    row["skeleton"] = row["skeleton"].replace("    def size(", equal)
    whole = dict(row, task_id="Own/2", test=STACK_TEST)
    Path(source).write_text(json.dumps(row) + "\n" + json.dumps(whole) + "\n")
    result = audit("classeval-v0", source, repeats=2)
    assert "can forge their results" in only(result, "excluded").text and result.healthy
    assert len(make("classeval-v0", source=source, allow_forgeable=True).tasks) == 2


def test_tests_of_a_class_that_pass_for_empty_methods_are_vacuous(tmp_path: Path) -> None:
    test = "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        Pile().push(1)\n"
    result = audit("classeval-v0", class_row(tmp_path, "len(self.things)", test=test), repeats=2)
    assert only(result, "vacuous").fault


def test_a_bug_that_no_test_finds_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "fixes.jsonl"
    row = {
        "task_id": "Own/1",
        "prompt": 'def f(x):\n    """Square a number."""\n',
        "declaration": "def f(x):\n",
        "canonical_solution": "    return x * x\n",
        "buggy_solution": "    return x ** 2\n",
        "bug_type": "operator misuse",
        "entry_point": "f",
        "test": SQUARES,
    }
    path.write_text(json.dumps(row) + "\n")
    remark = only(audit("humanevalfix-v0", str(path), repeats=2), "vacuous")
    assert remark.fault and remark.program == "the program with its bugs"
