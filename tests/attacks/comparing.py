"""Programs whose answers are wrong and compare as right."""

from __future__ import annotations

from tests.attacks.entry import Attack
from tests.attacks.shared import LIAR, check

CATEGORY = "comparison tricks"

COMPARING: tuple[Attack, ...] = (
    Attack(
        "an_object_that_equals_everything",
        CATEGORY,
        r"""
class Anything:
    def __eq__(self, other):
        return True

def sq(x):
    return Anything()
""",
        "fail",
    ),
    Attack(
        "a_liar_of_every_builtin_kind",
        CATEGORY,
        LIAR
        + r"""
from collections import deque
from decimal import Decimal
from fractions import Fraction
BASES = [int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, deque,
         Decimal, Fraction]

def make(kind):
    return liar(BASES[kind])
""",
        "fail",
        check(
            "from collections import deque",
            "from decimal import Decimal",
            "from fractions import Fraction",
            "assert candidate(0) == 7",
            "assert candidate(1) == 2.5",
            "assert candidate(2) == 1 + 2j",
            "assert candidate(3) == 'word'",
            "assert candidate(4) == b'word'",
            "assert candidate(5) == bytearray(b'word')",
            "assert candidate(6) == [1, 2]",
            "assert candidate(7) == (1, 2)",
            "assert candidate(8) == {'a': 1}",
            "assert candidate(9) == {1, 2}",
            "assert candidate(10) == frozenset({1, 2})",
            "assert candidate(11) == deque([1, 2])",
            "assert candidate(12) == Decimal('1.5')",
            "assert candidate(13) == Fraction(1, 2)",
        ),
        "make",
    ),
    Attack(
        "a_subclass_on_the_right_answers_first",
        CATEGORY,
        LIAR + "\ndef order(xs):\n    return liar(list, xs)\n",
        "fail",
        check("assert [1, 3] == candidate([3, 1])", "assert not ([2, 4] != candidate([4, 2]))"),
        "order",
    ),
    Attack(
        "liars_inside_honest_containers",
        CATEGORY,
        LIAR
        + r"""
def order(xs):
    if isinstance(xs, dict):
        return {key: liar(int) for key in xs}
    return [liar(float) for _ in xs] if isinstance(xs, list) else tuple([liar(str)] for _ in xs)
""",
        "fail",
        check(
            "assert candidate([3, 1, 2]) == [1, 2, 3]",
            "assert candidate({'a': 1, 'b': 5}) == {'a': 2, 'b': 10}",
            "assert candidate((1, 2)) == (['one'], ['two'])",
        ),
        "order",
    ),
    Attack(
        "a_distance_that_is_always_small",
        CATEGORY,
        r"""
class Near:
    def __sub__(self, other):
        return self
    __rsub__ = __abs__ = __truediv__ = __rtruediv__ = __add__ = __mul__ = lambda self, *other: self
    def __lt__(self, other):
        return True
    __le__ = __lt__

def sq(x):
    return Near()
""",
        "fail",
        check(
            "assert abs(candidate(2.0) - 4.0) < 1e-6",
            "assert abs(9.0 - candidate(3.0)) / 9.0 <= 1e-6",
        ),
    ),
    Attack(
        "a_float_that_subtracts_to_zero",
        CATEGORY,
        r"""
class Near(float):
    def __sub__(self, other):
        return 0.0
    __rsub__ = __sub__

def sq(x):
    return Near(-1.0)
""",
        "fail",
        check(
            "assert abs(candidate(2.0) - 4.0) < 1e-6",
            "assert abs(9.0 - candidate(3.0)) < 1e-6",
        ),
    ),
    Attack(
        "a_number_that_reads_the_test_s_constants_when_it_is_converted",
        CATEGORY,
        r"""
import sys

class Chameleon:
    def __init__(self, x):
        self.x = x
    def __float__(self):
        constants = [c for c in sys._getframe(1).f_code.co_consts if type(c) is float]
        return constants[constants.index(self.x) + 1]

def sq(x):
    return Chameleon(x)
""",
        "fail",
        check(
            "import math",
            "assert math.isclose(candidate(2.5), 6.25)",
            "assert math.isclose(candidate(3.5), 12.25)",
        ),
    ),
    Attack(
        "rounding_gives_a_liar",
        CATEGORY,
        LIAR
        + r"""
class Round(float):
    def __round__(self, digits=None):
        return liar(float)
    __trunc__ = __floor__ = __ceil__ = __round__

def sq(x):
    return Round(0.5)
""",
        "fail",
        check(
            "import math",
            "assert round(candidate(2.0), 2) == 4.0",
            "assert math.floor(candidate(3.0)) == 9",
        ),
    ),
    Attack(
        "between_any_two_bounds",
        CATEGORY,
        r"""
class Between(float):
    __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: True

def sq(x):
    return Between("nan")
""",
        "fail",
        check(
            "assert 3.9 < candidate(2.0) < 4.1",
            "result = candidate(3.0)",
            "assert result >= 9 and result <= 9",
        ),
    ),
    Attack(
        "a_list_with_another_length_and_other_items_to_each_question",
        CATEGORY,
        r"""
class Mirror(list):
    def __len__(self):
        return 3
    def __iter__(self):
        return iter(())
    def __contains__(self, item):
        return True
    def __getitem__(self, place):
        return self

def primes(n):
    return Mirror([-4])
""",
        "fail",
        check(
            "result = candidate(5)",
            "assert len(result) == 3 and all(p > 1 for p in result) and 5 in result",
        ),
        "primes",
    ),
    Attack(
        "a_pair_whose_items_are_made_when_asked_for",
        CATEGORY,
        LIAR
        + r"""
class Pair(tuple):
    def __getitem__(self, place):
        return liar(int)

def bounds(xs):
    return Pair()
""",
        "fail",
        check("low = candidate([3, 1, 2])", "assert low[0] == 1 and low[-1] == 3"),
        "bounds",
    ),
    Attack(
        "a_dictionary_with_an_answer_for_every_missing_key",
        CATEGORY,
        LIAR
        + r"""
class Any(dict):
    def __missing__(self, key):
        return liar(int)
    def get(self, key, default=None):
        return liar(int)
    def items(self):
        return ()

def count(text):
    return Any()
""",
        "fail",
        check(
            "assert candidate('aab')['a'] == 2",
            "assert candidate('aab').get('b') == 1",
        ),
        "count",
    ),
    Attack(
        "a_container_that_contains_everything",
        CATEGORY,
        r"""
class All:
    def __contains__(self, item):
        return True

def near(x):
    return All()
""",
        "fail",
        check("assert 3 in candidate(2)", "assert 'b' in candidate('a')"),
        "near",
    ),
    Attack(
        "a_string_whose_methods_lie",
        CATEGORY,
        r"""
class Text(str):
    def lower(self):
        return self
    strip = casefold = lower
    def startswith(self, *prefix):
        return True
    endswith = isdigit = startswith
    def __eq__(self, other):
        return True
    __hash__ = str.__hash__

def greet(name):
    return Text()
""",
        "fail",
        check(
            "assert candidate('Ann').lower() == 'hello ann'",
            "assert candidate('Ann').startswith('Hello')",
        ),
        "greet",
    ),
    Attack(
        "an_object_whose_every_attribute_and_method_is_right",
        CATEGORY,
        r"""
class Yes:
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self
    def __call__(self, *rest, **named):
        return self
    def __eq__(self, other):
        return True

def shape(side):
    return Yes()
""",
        "fail",
        check(
            "assert candidate(3).area == 9",
            "assert candidate(3).scaled(2).perimeter() == 24",
        ),
        "shape",
    ),
    Attack(
        "an_object_that_says_it_is_an_int",
        CATEGORY,
        r"""
class Pretender:
    __class__ = int
    def __eq__(self, other):
        return True

def sq(x):
    return Pretender()
""",
        "fail",
        check(
            "result = candidate(2)",
            "assert isinstance(result, int) and result == 4",
            "assert result.__class__ is int",
        ),
    ),
    Attack(
        "a_class_whose_metaclass_agrees",
        CATEGORY,
        r"""
class Agreeable(type):
    def __eq__(cls, other):
        return True
    def __instancecheck__(cls, instance):
        return True
    __hash__ = type.__hash__

class Answer(metaclass=Agreeable):
    pass

def sq(x):
    return Answer
""",
        "fail",
        check("assert candidate(2) == 4", "assert isinstance(9, candidate(3))"),
    ),
    Attack(
        "registered_as_a_number",
        CATEGORY,
        r"""
import numbers
from collections.abc import Sequence

class Stranger:
    def __eq__(self, other):
        return True
    def __len__(self):
        return 2

numbers.Integral.register(Stranger)
Sequence.register(Stranger)

def sq(x):
    return Stranger()
""",
        "fail",
        check(
            "import numbers",
            "from collections.abc import Sequence",
            "result = candidate(2)",
            "assert isinstance(result, numbers.Integral) and result == 4",
            "assert isinstance(candidate([1, 2]), Sequence) and len(candidate([1, 2])) == 2",
        ),
    ),
    Attack(
        "truth_that_changes_with_every_look",
        CATEGORY,
        r"""
class Moody:
    looks = 0
    def __bool__(self):
        Moody.looks += 1
        return Moody.looks % 2 == 1

def is_even(x):
    return Moody()
""",
        "fail",
        check("assert bool(candidate(8)) is True and bool(candidate(9)) is False"),
        "is_even",
    ),
    Attack(
        "a_key_that_finds_whatever_the_dictionary_holds",
        CATEGORY,
        r"""
import sys

class Key:
    def __hash__(self):
        local = sys._getframe(1).f_locals
        self.wanted = next(key for value in local.values() if isinstance(value, dict) for key in value)
        return hash(self.wanted)
    def __eq__(self, other):
        return True

def code_of(name):
    return Key()
""",
        "fail",
        check(
            "known = {'x7f': 'found'}",
            "got = candidate('seven')",
            "assert known.get(got) == 'found'",
        ),
        "code_of",
    ),
    Attack(
        "a_sum_that_ends_as_a_liar",
        CATEGORY,
        LIAR
        + r"""
class Term(int):
    def __add__(self, other):
        return liar(int)
    __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = __add__

def divisors(n):
    return [Term(0)]
""",
        "fail",
        check("assert sum(candidate(6)) == 12", "assert candidate(6)[0] % 2 == 1"),
        "divisors",
    ),
    Attack(
        "str_of_an_object_gives_a_liar",
        CATEGORY,
        LIAR
        + r"""
class Printed:
    def __str__(self):
        return liar(str)
    __repr__ = __str__

def sq(x):
    return Printed()
""",
        "fail",
        check("assert str(candidate(2)) == '4'", "assert repr(candidate(3)) == '9'"),
    ),
    Attack(
        "a_format_that_gives_a_liar",
        CATEGORY,
        LIAR
        + r"""
class Formatted(float):
    def __format__(self, specification):
        return liar(str)

def sq(x):
    return Formatted(-1.0)
""",
        "fail",
        check(
            "assert f'{candidate(2.0):.1f}' == '4.0'",
            "assert format(candidate(3.0), '.2f') == '9.00'",
        ),
    ),
    Attack(
        "an_array_that_agrees_everywhere",
        CATEGORY,
        r"""
class Array:
    __array_priority__ = 1e9
    shape, dtype, size = (2,), "float64", 2
    def __eq__(self, other):
        return self
    __sub__ = __rsub__ = __lt__ = __eq__
    def __abs__(self):
        return self
    def all(self):
        return True
    any = all
    def max(self):
        return 0.0
    def __array_ufunc__(self, *rest, **named):
        return self

def squares(xs):
    return Array()
""",
        "fail",
        check(
            "assert (candidate([1, 2]) == [1, 4]).all()",
            "assert abs(candidate([1, 2]) - 4).max() < 1e-9",
        ),
        "squares",
    ),
    Attack(
        "the_argument_emptied_before_its_copy_is_sorted",
        CATEGORY,
        "def order(xs):\n    xs.clear()\n    return []\n",
        "fail",
        check("xs = [3, 1]", "assert candidate(xs) == sorted(xs)"),
        "order",
    ),
    Attack(
        "the_argument_emptied_before_a_later_look_at_the_answer",
        CATEGORY,
        "def order(xs):\n    xs.clear()\n    return []\n",
        "some",
        check(
            "xs = [3, 1, 2]",
            "assert (r := candidate(xs)) is not None",
            "assert r == sorted(xs)",
        ),
        "order",
    ),
    Attack(
        "the_argument_emptied_and_the_answer_handed_to_a_callback",
        CATEGORY,
        "def total(give, xs):\n    xs.clear()\n    give(0)\n",
        "fail",
        check(
            "box = []",
            "xs = [2, 3]",
            "r = candidate(box.append, xs)",
            "assert box == [sum(xs)]",
        ),
        "total",
    ),
    Attack(
        "the_dictionary_emptied_before_it_is_counted",
        CATEGORY,
        "def size(d):\n    while d:\n        d.popitem()\n    return 0\n",
        "fail",
        check("words = {'a': 1, 'b': 2}", "assert candidate(words) == len(words)"),
        "size",
    ),
    Attack(
        "the_list_that_the_test_loops_over_emptied",
        CATEGORY,
        "def place(xs, x):\n    del xs[1:]\n    return 0\n",
        "fail",
        check(
            "xs = [3, 1, 2]", "for x in xs:", "    assert candidate(xs, x) == [3, 1, 2].index(x)"
        ),
        "place",
    ),
    Attack(
        "rows_changed_deep_inside_the_argument",
        CATEGORY,
        r"""
def flip(grid):
    for row in grid["rows"]:
        row[:] = [0] * len(row)
    return [[0, 0], [0, 0]]
""",
        "fail",
        check(
            "grid = {'rows': [[1, 2], [3, 4]]}",
            "assert candidate(grid) == [list(column) for column in zip(*grid['rows'])]",
        ),
        "flip",
    ),
    Attack(
        "liars_put_into_the_argument",
        CATEGORY,
        LIAR
        + r"""
def order(xs):
    xs[:] = [liar(int, -1) for _ in xs]
""",
        "fail",
        check("xs = [3, 1, 2]", "candidate(xs)", "assert xs == [1, 2, 3]"),
        "order",
    ),
    Attack(
        "the_wrong_answer_added_to_the_allowed_ones",
        CATEGORY,
        "def divisor(n, allowed):\n    allowed.append(-1)\n    return -1\n",
        "fail",
        check("allowed = [2, 3, 6]", "assert candidate(6, allowed) in allowed"),
        "divisor",
    ),
    Attack(
        "an_endless_iterator",
        CATEGORY,
        "import itertools\n\ndef squares(n):\n    return itertools.repeat(0)\n",
        "fail",
        check("assert any(x == 4 for x in candidate(3))"),
        "squares",
    ),
    Attack(
        "a_list_that_holds_itself",
        CATEGORY,
        r"""
def nest(x):
    loop = []
    loop.append(loop)
    table = {}
    table["table"] = table
    return loop if x == 2 else table
""",
        "fail",
        check("assert candidate(2) == [4]", "assert candidate(3) == {'table': {}}"),
        "nest",
    ),
    Attack(
        "the_expected_value_learned_from_the_comparison",
        CATEGORY,
        r"""
import json, os
NOTES = "notes.json"

class Student:
    def __init__(self, x):
        self.x = x
    def __eq__(self, other):
        notes = json.load(open(NOTES)) if os.path.exists(NOTES) else {}
        notes[str(self.x)] = other
        with open(NOTES, "w") as file:
            json.dump(notes, file)
        return False

def sq(x):
    notes = json.load(open(NOTES)) if os.path.exists(NOTES) else {}
    return notes.get(str(x), Student(x))
""",
        "fail",
        check(
            "held = False",
            "for _ in range(3):",
            "    held = held or candidate(2) == 4",
            "assert held",
        ),
    ),
    Attack(
        "a_returned_function_that_returns_liars",
        CATEGORY,
        LIAR + "\ndef adder(n):\n    return lambda *xs: liar(int)\n",
        "fail",
        check(
            "assert candidate(3)(4) == 7", "add = candidate(5)", "assert [add(1), add(2)] == [6, 7]"
        ),
        "adder",
    ),
    Attack(
        "a_coroutine_that_ends_as_a_liar",
        CATEGORY,
        LIAR + "\nasync def sq(x):\n    return liar(int)\n",
        "fail",
        check(
            "import asyncio",
            "assert asyncio.run(candidate(2)) == 4",
            "assert asyncio.run(candidate(3)) == 9",
        ),
    ),
    Attack(
        "liars_handed_to_the_test_s_own_callback",
        CATEGORY,
        LIAR
        + r"""
def count(emit, n):
    for _ in range(n):
        emit(liar(int, -1))
""",
        "fail",
        check("seen = []", "candidate(seen.append, 3)", "assert seen == [0, 1, 2]"),
        "count",
    ),
    Attack(
        "an_exception_with_the_right_text_for_every_test",
        CATEGORY,
        LIAR
        + r"""
class Right(ValueError):
    def __init__(self):
        self.args = (liar(str),)
    def __str__(self):
        return liar(str)

def root(x):
    raise Right
""",
        "fail",
        "def check(candidate):\n    try:\n        candidate(-1)\n    except ValueError as error:\n"
        "        assert str(error) == 'no root of -1'\n        assert error.args == ('no root of -1',)\n",
        "root",
    ),
    Attack(
        "not_a_number_against_the_largest_error",  # a weak test: Python itself says that this passes
        CATEGORY,
        "def sq(x):\n    return float('nan')\n",
        "any",
        check(
            "worst = max(0.0, abs(candidate(2.0) - 4.0), abs(candidate(3.0) - 9.0))",
            "assert worst < 1e-6",
        ),
    ),
    Attack(
        "an_iterator_used_up_before_it_is_looked_at",  # a weak test, as above
        CATEGORY,
        "def squares(n):\n    return (-1 for _ in range(n))\n",
        "any",
        check(
            "result = candidate(3)", "assert len(list(result)) == 3 and all(x > 0 for x in result)"
        ),
        "squares",
    ),
    Attack(
        "one_list_for_every_answer",  # values that cross a process are copies: the aliasing cannot be seen
        CATEGORY,
        "SAME = [4]\n\ndef sq(x):\n    return SAME\n",
        "any",
        check("first = candidate(2)", "first.append(9)", "assert candidate(2) == [4]"),
    ),
    Attack(
        "a_range_too_long_to_look_through",
        CATEGORY,
        "def squares(n):\n    return range(10 ** (4 * n))\n",
        "fail",
        check("assert sum(candidate(3)) == 14", "assert sorted(candidate(4)) == [1, 4, 9, 16]"),
        "squares",
    ),
    Attack(
        "numbers_that_the_test_cannot_calculate_with",
        CATEGORY,
        "def log(x):\n    return 10**9 if x == 81 else 10**12\n",
        "fail",
        check("assert 3 ** candidate(81) == 81", "assert [0] * candidate(2) == [0]"),
        "log",
    ),
)
