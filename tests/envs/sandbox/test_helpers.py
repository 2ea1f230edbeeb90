"""Helpers that a program calls in tests that pass, and outcomes that depend on their results."""

from __future__ import annotations

import collections
import dataclasses
import decimal
import enum
import fractions
import math
import re

import pytest

from llm_decpomdp.envs.sandbox import Execution, Limits, Program, Sandbox, instrument
from llm_decpomdp.envs.sandbox.worker.candidate.result_mutation import mutate_value
from llm_decpomdp.envs.sandbox.worker.protocol.channel import MUTATIONS
from tests.support.programs import check as function_of

AUX = "def aux(x):\n    return x * x"
CHECK = ("assert candidate(2) == 4", "assert candidate(3) == 9")
SANDBOX = Sandbox(Limits(load_seconds=5, test_seconds=5), workers=1, cache_size=0)


def run(main: str, aux: str = AUX, check=CHECK, split: bool = True, limits=None) -> Execution:
    """A team of two against a test."""
    test = function_of(*check)
    program = Program((("aux_0", aux), ("main_0", main)), "sq", helpers=(("aux_0", "aux"),))
    return SANDBOX.run(program, instrument(test, "sq", split), limits)


def use(*args, **options) -> tuple[bool, bool]:
    """Run a program that passes all tests; tell if it calls the helper, and if it uses the results."""
    execution = run(*args, **options)
    assert all(test.passed for test in execution.tests), execution.tests
    return execution.helper_calls[0] > 0, execution.helpers_used[0]


def body(text: str) -> str:
    return "def sq(x):\n" + "".join(f"    {line}\n" for line in text.splitlines())


USED, IGNORED, NOT_CALLED, LOADING = (True, True), (True, False), (False, False), (False, True)


# Called, used, ignored


TABLE = "T = [aux(i) for i in range(9)]\n"
FIRST = "import random\nFIRST, N = random.random(), 0\n"
SAMPLE = "import random\naux(x)\nreturn x * x if random.random() == FIRST else x * x + N"
COROUTINE = "async def aux(x):\n    return x * x"
JUDGED = {
    "a result": (body("return aux(x) + 0"), AUX, USED),
    "no result": (body("aux(x)\nreturn x * x"), AUX, IGNORED),
    "no call": (body("return x * x"), AUX, NOT_CALLED),
    "a table of results": (TABLE + body("return T[x]"), AUX, LOADING),
    "an unused table": (TABLE + body("return x * x"), AUX, NOT_CALLED),
    "a printed result": ("print(aux(2))\n" + body("return x * x"), AUX, NOT_CALLED),
    "equal results": (body("return x * x + aux(x) - aux(x)"), AUX, IGNORED),
    "equal results of two arguments": (body("return x * x + aux(x) - aux(-x)"), AUX, IGNORED),
    "an endless loop": (body("n = 0\nwhile n != aux(x):\n    n += 1\nreturn n"), AUX, USED),
    "an end": (body("import os\nif aux(x) != x * x:\n    os._exit(1)\nreturn x * x"), AUX, USED),
    "an exit": (body("if aux(x) != x * x:\n    raise SystemExit\nreturn x * x"), AUX, USED),
    # Each run begins anew.
    "a count": ("N = []\n" + body("N.append(aux(x))\nreturn x * x if len(N) < 3 else 0"), AUX, IGNORED),
    "a random number": (FIRST + body(SAMPLE), AUX, IGNORED),
    "a coroutine": (body("import asyncio\nreturn asyncio.run(aux(x)) + 0"), COROUTINE, USED),
    "an unused coroutine": (body("import asyncio\nasyncio.run(aux(x))\nreturn x * x"), COROUTINE, IGNORED),
}  # fmt: skip


@pytest.mark.parametrize(("main", "aux", "expected"), JUDGED.values(), ids=JUDGED)
def test_a_helper_is_used_if_an_outcome_depends_on_it(main, aux, expected):
    assert use(main, aux) == expected


def test_only_calls_in_tests_that_pass_count():
    main = body("if x == 2:\n    return 4\nreturn aux(x) + 1")
    execution = run(main)
    assert [test.passed for test in execution.tests] == [True, False]
    assert (execution.helper_calls, execution.helpers_used) == ((0,), (False,))
    prepared = ("y = candidate(3)", "assert y == 9", "assert candidate(2) == 0")
    assert run(body("aux(x)\nreturn x * x"), check=prepared).helper_calls == (1,)


@pytest.mark.parametrize(
    ("main", "check"),
    [
        ("def sq(g):\n    aux(3)\n    return g", ("assert candidate(h) is h",)),
        ("def sq(g):\n    aux(3)\n    return [g, g(2)]", ("assert candidate(h)[0] == h",)),
        (
            "import functools\n@functools.lru_cache\ndef table(n):\n    return list(range(3_000_000))\n"
            + body("aux(x)\nreturn table(1)[x] * x"),
            CHECK,
        ),
        ("import os\n" + body("aux(x)\nos.mkdir(str(x))\nreturn x * x"), CHECK),
        (body("aux(x)\nwith open('t', 'x') as f:\n    return x * x"), CHECK[:1]),
    ],
    ids=["same function", "function in a list", "much memory", "a folder", "a file"],
)
def test_a_run_with_changed_results_finds_what_the_first_one_found(main, check):
    assert use(main, check=("h = lambda x: x", *check)) == IGNORED


def test_a_program_that_takes_long_has_its_time_anew_in_each_run():
    limits = Limits(load_seconds=1, test_seconds=1, program_seconds=1)
    slow = "import time\ndef sq(x):\n    aux(x)\n    t = time.process_time()\n"
    slow += "    while time.process_time() < t + 0.4:\n        pass\n    return x * x"
    assert use(slow, check=CHECK[:1], limits=limits) == IGNORED


@pytest.mark.slow
def test_all_runs_of_a_program_share_one_limit_on_the_clock():
    # One test and no second one fits into the share of the tests, with seconds to spare on a busy machine.
    sleeps = "import time\ndef sq(x):\n    aux(x)\n    time.sleep(4)\n    return x * x"
    execution = run(sleeps, check=CHECK[:1], limits=Limits(job_seconds=8))
    assert all(test.passed for test in execution.tests) and execution.wall_decided
    assert execution.helpers_used == (True,)  # no time was left to find out: it keeps its points
    checks = [f"assert candidate({x}) == {x * x}" for x in range(7)]
    execution = run(sleeps, check=checks, limits=Limits(job_seconds=8))
    assert [test.passed for test in execution.tests] == [True] + [False] * 6
    assert execution.tests[-1].status == "not_run" and execution.wall_decided


def test_a_test_that_never_ends_on_a_changed_value_costs_the_program_nothing():
    line = "assert sum(range(candidate(2))) == 6"
    assert use(body("return aux(x) if aux(x) == 4 else 10**12"), check=[line]) == USED
    assert use(body("aux(x)\nreturn x * x"), check=[line]) == IGNORED


def test_what_a_program_prints_with_changed_results_is_for_nobody():
    assert run(body("print(aux(x))\nreturn aux(x)")).output == "4\n9\n"


RESULTS = {
    "None": ("return None if x == 2 else x", "return 4 if aux(x) is None else 9"),
    "an exception": (
        "if x == 2:\n    raise ValueError\nreturn x",
        "try:\n    aux(x)\nexcept ValueError:\n    return 4\nreturn 9",
    ),
    "a bool": ("return x == 2", "return 4 if aux(x) else 9"),
    "a sign": ("return x - 2.5", "return 4 if aux(x) < 0 else 9"),
    "an order": ("return x", "return 4 if aux(x) < aux(2.5) else 9"),
    "a large number": ("return x", "return x * x if aux(x) < 50 else 0"),
    "truth": ("return [0] * (x - 2)", "return 9 if aux(x) else 4"),
    "a length": ("return 'ab' if x == 2 else 'abc'", "return len(aux(x)) ** 2"),
    "a generator": ("yield x\nyield x", "a, b = aux(x)\nreturn a * b"),
    "a function": ("return lambda v: v * x", "return aux(x)(x)"),
    "a tuple": ("return x, x", "a, b = aux(x)\nreturn a * b"),
    "a dict": ("return {'a': x}", "return aux(x)['a'] * x"),
    "keys": ("return {x: 0}", "return [*aux(x)][0] * x"),
    "a set": ("return {x}", "return x * x if x in aux(x) else 0"),
    "an object": ("class Box:\n    pass\nbox = Box()\nbox.v = x\nreturn box", "return aux(x).v * x"),
    "a pattern": ("import re\nreturn re.compile(str(x))", "return x * x if aux(x).match(str(x)) else 0"),
    "an array of arrays": ("return [[x]]", "return aux(x)[0][0] * x"),
}  # fmt: skip


@pytest.mark.parametrize(("aux", "main"), RESULTS.values(), ids=RESULTS)
def test_results_of_many_types_are_changed(aux, main):
    helper = body(aux).replace("sq", "aux")
    assert use(body(main), helper) == USED
    assert use(body("y = aux(x) if x > 2 else 0\nreturn x * x"), helper) == IGNORED


def test_a_helper_that_calls_itself_is_changed_from_outside_only():
    helper = "def aux(x):\n    return 0 if x == 0 else aux(x - 1) + 2 * x - 1"
    execution = run(body("return aux(x) + 0"), helper)
    assert execution.helper_calls == (2,) and execution.helpers_used == (True,)
    remembers = "from functools import lru_cache\n@lru_cache(None)\n" + helper
    assert use(body("return aux(x) + 0"), remembers) == USED
    assert use(body("return x * x if aux.cache_info() else aux(x)"), remembers) == NOT_CALLED


@pytest.mark.parametrize(
    ("second", "main", "calls"),
    [
        ("return x", "aux_0(x)\nreturn aux_1(x) * x", (1, 1, 0)),
        ("return aux_0(x) * x", "aux_0(x)\nreturn aux_1(x) + 0", (1, 1, 0)),
    ],
    ids=["apart", "results among helpers are not changed"],
)
def test_several_helpers_are_changed_one_by_one(second, main, calls):
    bodies = ("return x", second, "return x")
    helpers = [(f"aux_{i}", f"def aux_{i}(x):\n    {code}") for i, code in enumerate(bodies)]
    segments = (*helpers, ("main_0", body(main)))
    program = Program(segments, "sq", helpers=tuple((agent, agent) for agent, _ in helpers))
    execution = SANDBOX.run(program, instrument(function_of("assert candidate(3) == 9"), "sq"))
    assert (execution.helper_calls, execution.helpers_used) == (calls, (False, True, False))


# Ways of grading


WAYS = {
    "beside": {"check": CHECK},
    "inside": {"check": CHECK, "split": False},
    "calls that depend on answers": {"check": ("assert candidate(candidate(2)) == 16",)},
    "an iterator": {"check": ("assert [v for v in candidate(2)] == [4]",)},
    "arguments that change": {"check": ("xs = [2]", "candidate(xs)", "assert xs == [4]")},
    "in a loop": {"check": ("for v in (2, 3):", "    assert candidate(v) == v * v")},
}
MAINS = {
    "an iterator": "for v in [x]:\n    {}\n    yield {}",
    "arguments that change": "{}\nx[0] = {}",
}


@pytest.mark.parametrize("way", WAYS)
def test_helpers_are_judged_in_every_way_of_grading(way):
    main = body(MAINS.get(way, "{}\nreturn {}"))
    argument = "x[0]" if way == "arguments that change" else "x"
    aux, plain = f"aux({argument})", f"{argument} ** 2"
    assert use(main.format("pass", f"{aux} + 0"), **WAYS[way]) == USED
    assert use(main.format(aux, plain), **WAYS[way]) == IGNORED
    assert use(main.format("pass", plain), **WAYS[way]) == NOT_CALLED


def test_equal_programs_are_judged_equally():
    mains = [
        body("return aux(x) + 0"),
        body("aux(x)\nreturn x * x"),
        body("return len(str(aux(x))) + x * x - 1"),
    ]
    for main in mains:
        executions = [run(main) for _ in range(5)]
        assert len({(e.tests, e.helper_calls, e.helpers_used) for e in executions}) == 1


# Changes


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: list[int]


@dataclasses.dataclass
class Slotted:
    __slots__ = ("x",)
    x: int


Pair = collections.namedtuple("Pair", "a b")

VALUES = [
    *(0, 1, 5, -1, 10**400, True, False, 2.5, -0.0, math.inf, -math.inf, 1e300, 1j),
    *(decimal.Decimal("1.5"), fractions.Fraction(1, 3)),
    *("", "a", "aba", "~", b"", b"ab", bytearray(b"xy"), bytearray()),
    *([], [0], [1, 2], [[]], (), (1, "a"), Pair(1, 2), {1}, set(), frozenset({1, 2}), frozenset()),
    *({}, {"a": 1}, collections.Counter("aab"), collections.defaultdict(int, {1: 2})),
    *(collections.deque([1, 2], 2), range(0), range(3), range(5, 0, -1)),
    *(Colour.RED, Level.HIGH, Point(1, [2]), None, [None, [1, [2]]]),
]


@pytest.mark.parametrize("kind", MUTATIONS)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_changed_value_is_another_one_of_its_type(value, kind):
    change = mutate_value(value, kind)
    assert change != value and (value is None or type(change) is type(value))
    assert mutate_value(value, kind) == change


def test_what_has_no_equals_is_changed_in_its_parts():
    assert mutate_value(Slotted(1), 0).x == -2
    assert list(mutate_value(iter([1, 2]), 2)) == [2, 3]
    assert mutate_value(len, 0)("abc") == -4
    assert mutate_value(re.compile("a"), 0) is None and mutate_value(object(), 0) is None
    assert math.isnan(math.nan) and mutate_value(math.nan, 0) == 0.0
    endless: list[object] = []
    endless.append(endless)
    assert mutate_value(endless, 0) != endless


def test_the_value_itself_stays_as_it_is():
    value = {"a": [1, {2}], "b": Point(1, [2])}
    for kind in MUTATIONS:
        mutate_value(value, kind)
    assert value == {"a": [1, {2}], "b": Point(1, [2])}
