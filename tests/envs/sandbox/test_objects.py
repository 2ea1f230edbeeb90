"""Objects of the program's own classes answer the tests, and decide nothing about values."""

from __future__ import annotations

import pytest

from llm_decpomdp.envs.sandbox import Program, Sandbox, instrument
from tests.support.programs import check

SANDBOX = Sandbox(workers=1, cache_size=0)

CLASSES = """
from collections import Counter, defaultdict, namedtuple
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, IntEnum

@dataclass
class Point:
    x: int
    y: int = 0
    tags: list = field(default_factory=list)

    @property
    def size(self):
        return self.x + self.y

    def plus(self, other):
        return Point(self.x + other.x, self.y + other.y)

    def tag(self, *names):
        self.tags.extend(names)
        return self

class Node:
    def __init__(self, value, next=None):
        self.value, self.next = value, next
    def __len__(self):
        return 2
    def __iter__(self):
        return iter([self.value, self.next])
    def __getitem__(self, place):
        return [*self][place]

class Color(Enum):
    RED = "red"

class Level(IntEnum):
    HIGH = 3

Pair = namedtuple("Pair", "left right")

def make(kind, *args):
    return {"counter": Counter, "same": lambda x: x}.get(kind, globals().get(kind))(*args)

make.version = 7
"""

HONEST = [
    "make('Point', 3, 4).x == 3",
    "make('Point', 3, 4).size == 7",
    "make('Point', 3).plus(make('Point', 4)).x == 7",
    "make('Point', 3).__dict__ == {'x': 3, 'y': 0, 'tags': []}",
    "vars(make('Point', 3))['x'] == 3",
    "str(make('Point', 3)) == 'Point(x=3, y=0, tags=[])'",
    "make('Point', 3).tag('a').tags == ['a']",
    "[p.x for p in [make('Point', 1), make('Point', 2)]] == [1, 2]",
    "make('Color', 'red').name == 'RED' and make('Color', 'red').value == 'red'",
    "make('Color', 'red') is make('Color', 'red')",
    "make('Level', 3) == 3 and make('Level', 3).name == 'HIGH'",
    "make('Pair', 1, 2) == (1, 2)",
    "make('Pair', 1, 2).left == 1 and make('Pair', 1, 2)._asdict() == {'left': 1, 'right': 2}",
    "sorted([make('Pair', 2, 1), make('Pair', 1, 2)])[0].right == 2",
    "make('counter', 'aab') == {'a': 2, 'b': 1}",
    "make('counter', 'aab').most_common(1) == [('a', 2)]",
    "len(make('Node', 1)) == 2 and [*make('Node', 1)] == [1, None] and make('Node', 1)[0] == 1",
    "make('Node', 1, make('Node', 2)).next.value == 2",
    "1 in make('Node', 1)",
    "make('datetime', 2024, 2, 29).isoformat() == '2024-02-29T00:00:00'",
    "make('datetime', 2024, 2, 29) + make('timedelta', 1) == make('datetime', 2024, 3, 1)",
    "make('same', int) is int",
    "make.version == 7 and make.__name__ == 'make' and make.__doc__ is None",
]


def outcomes(code, test, preamble=""):
    program = Program((("main_0", code),), "make", preamble)
    return SANDBOX.run(program, instrument(test, "make")).tests


def passed(code, *lines):
    """Tell which tests of a function with these lines pass; all outcomes are in the message of a failure."""
    return [outcome.passed or outcome for outcome in outcomes(code, check(*lines))]


@pytest.mark.parametrize("line", HONEST)
def test_tests_read_the_objects_of_an_honest_program(line):
    (outcome,) = outcomes(CLASSES, f"assert {line}")
    assert outcome.passed, outcome.message


def test_an_object_lives_on_between_statements_and_can_be_given_back():
    new = ("point = candidate('Point', 1)", "point.x = 5")
    given = (
        "assert point.x == 5 and candidate('same', point) is point",
        "point.tags.append('here')",
    )
    tags = ("assert point.tags == ['here']", "tags = point.tags", "point.tag('there')")
    same = ("assert tags == ['here', 'there'] and tags is point.tags", "point.hook = lambda: 9")
    assert passed(CLASSES, *new, *given, *tags, *same, "assert point.hook() == 9") == [True] * 4


def test_a_function_of_the_test_comes_back_as_itself():
    new = ("from unittest.mock import MagicMock", "point = candidate('Point', 1)")
    calls = ("point.save = MagicMock(return_value=3)", "assert point.save(4) == 3")
    called = (
        "point.save.assert_called_once_with(4)",
        "assert candidate('same', point.save) is point.save",
    )
    assert passed(CLASSES, *new, *calls, *called) == [True] * 3


YES = """
class Yes:
    told = []
    def __getattr__(self, name):
        if name.startswith("__") and name != "__array_interface__":
            raise AttributeError(name)
        return bool if name == "find" else self
    def __call__(self, *args):
        Yes.told.extend(args)
        return True
    def __eq__(self, other):
        Yes.told.append(other)
        return True
    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __eq__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __truediv__ = __mod__ = __eq__
    __hash__ = object.__hash__
    def __len__(self):
        return 0
    def __iter__(self):
        return iter([self])
    def __float__(self):
        return 2.5
    __int__ = __index__ = __round__ = __abs__ = __float__
    def __exit__(self, *error):
        return True
    def __enter__(self):
        return self

YES = Yes()

def make(kind):
    return Yes.told if kind == "told" else YES
"""

DECIDED = [
    "make('x') == 2.5",
    "2.5 == make('x')",
    "not (make('x') != 2.5)",
    "make('x') < 3",
    "2.5 in make('x')",
    "abs(make('x') - 2.5) < 1",
    "(make('x') + 2.5) == 5",
    "round(make('x')) == 2",
    "float(make('x')) == 2.5",
    "int(make('x')) == 2",
    "make('x').value == 2.5",
    "make('x').startswith('2.5')",
    "make('x').count('2.5') == 1",
    "make('x').find('2.5')",
    "{2.5}.issubset(make('x'))",
    "[2.5, 1] == [*make('x')]",
    "2.5 == [2.5][make('x')]",
    "isinstance(make('x'), float)",
    "make('x').__class__ is float",
    "make('x').__array_interface__",
    "len(make('x')) == 3",
]


@pytest.mark.parametrize("line", DECIDED)
def test_an_object_that_says_yes_passes_nothing_and_is_told_nothing(line):
    first, last = outcomes(YES, f"assert {line}\nassert make('told') == []")
    assert not first.passed and last.passed, (first, last)


def test_an_object_cannot_make_an_exception_of_the_test_undone():
    (outcome,) = outcomes(YES, "with make('x'):\n    assert make('told') == 1")
    assert not outcome.passed
    body = "with make('x'):\n    raise ValueError\nassert True is True"
    test = check("with candidate('x'):\n        assert 1 == 1\n        raise ValueError")
    assert [outcome.passed for outcome in outcomes(YES, test)] == [False], body


def test_methods_with_names_of_those_of_values_work_if_the_prompt_defines_them():
    stack = "class Stack:\n    def __init__(self):\n        self.all = []\n"
    stack += "    def index(self, item):\n        return self.all.index(item)\n"
    code = "def make(kind):\n    stack = Stack()\n    stack.all.append(kind)\n    return stack\n"
    test = "assert make('a').index('a') == 0"
    assert not outcomes(stack + code, test)[0].passed
    assert outcomes(code, test, stack)[0].passed


def test_an_object_of_a_process_that_has_ended_answers_no_more():
    code = CLASSES + "\nimport os\nBYE = lambda: os._exit(1)\n"
    ends = ("try:", "    candidate('BYE')", "except BaseException:", "    pass")
    asks = ("assert point.x == 1", "assert candidate('Point', 2).x == 2")
    first, last = outcomes(code, check("point = candidate('Point', 1)", *ends, *asks))
    assert first.status == "crashed" and last.passed


def test_a_changed_container_of_an_object_is_no_change_of_an_argument():
    code = "class A:\n    def __init__(self):\n        self.items = [1]\n\ndef make(kind):\n    return A()\n"
    assert passed(
        code, "a = candidate('x')", "xs = a.items", "xs.append(2)", "assert a.items == [1, 2]"
    ) == [True]
    liar = code + "class B:\n    def items(self, xs):\n        xs.clear()\n        return []\n"
    liar = liar.replace("return A()", "return B()")
    assert passed(liar, "xs = [2, 1]", "assert candidate('x').items(xs) == sorted(xs)") != [True]


def test_tests_and_programs_share_a_folder_that_is_empty_again_afterwards():
    if SANDBOX.layers()["private folder"]:
        pytest.skip("programs cannot write files here")
    code = (
        "import os\n\ndef make(kind):\n    found = sorted(os.listdir())\n"
        "    open('out.txt', 'w').write(str(found))\n    return found\n"
    )
    writes = ("import os", "open('in.txt', 'w').close()", "assert candidate('x') == ['in.txt']")
    reads = "assert open('out.txt').read() == \"['in.txt']\""
    for _ in range(3):
        assert passed(code, *writes, reads) == [True, True]
    assert passed(code, "assert candidate('x') == []") == [True]
    leaves = ("open('left.txt', 'w').close()", "assert os.listdir() == ['left.txt']")
    assert passed(code, "import os", *leaves) == [True]
    assert passed(code, "assert candidate('x') == []") == [True]


def test_tests_cannot_reach_files_outside_the_folder():
    reads = (
        "try:",
        "    open('/etc/passwd').read()",
        "except OSError as error:",
        "    found = error",
    )
    if not SANDBOX.layers()["landlock"]:
        assert passed(CLASSES, *reads, "assert isinstance(found, OSError)") == [True]


def test_an_attribute_that_a_test_deletes_is_gone_from_the_program_s_object():
    code = "class Point:\n    pass\n\ndef make(kind):\n    return Point()"
    lines = (
        "p = candidate(1)",
        "p.q = 4",
        "assert p.q == 4",
        "del p.q",
        "assert not hasattr(p, 'q')",
    )
    assert passed(code, *lines) == [True, True]
