"""Verdicts come from values, whatever way the test asks for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llm_decpomdp.envs.sandbox import Limits, Program, Sandbox, instrument
from tests.envs.sandboxed import SHORT, program, run, statuses
from tests.support.programs import SQUARE, check

SWALLOW = ("try:", "    candidate(2)", "except:", "    pass", "else:", "    assert False")


# One statement and the next


@pytest.mark.parametrize("split", [True, False])
def test_a_statement_that_fails_spoils_those_that_use_its_variables(split):
    test = check(
        "xs = [1]",
        "ys = [1]",
        "xs.append(candidate(2))",
        "assert len(xs) == 1",
        "assert len(ys) == 1",
        "assert candidate(3) == 9",
    )
    code = "def sq(x):\n    return x * x if x == 3 else 1 / 0"
    assert statuses(code, test, split=split) == ["error", "passed", "passed"]


@pytest.mark.parametrize("split", [True, False])
def test_an_assert_that_fails_spoils_nothing(split):
    test = check("xs = [1]", "assert candidate(xs[0]) == 5", "assert xs == [1]")
    assert statuses(SQUARE, test, split=split) == ["failed", "passed"]


@pytest.mark.parametrize(
    ("way", "status"),
    [("while True: pass", "timeout"), ("os._exit(0)", "crashed"), ("raise ValueError", "passed")],
)
def test_a_test_that_swallows_everything_passes_for_an_exception_only(way, status):
    code = f"import os\ndef sq(x):\n    if x == 2:\n        {way}\n    return x * x"
    test = check(*SWALLOW, "assert candidate(3) == 9")
    assert statuses(code, test) == [status, "passed"]


@pytest.mark.parametrize("split", [True, False])
def test_tests_after_a_timeout_are_run(split):
    test = check(*(f"assert candidate({x}) == {x}" for x in range(5)))
    code = "import os\ndef sq(x):\n    while x == 1: pass\n    x == 3 and os._exit(1)\n    return x"
    verdicts = ["passed", "timeout", "passed", "crashed", "passed"]
    assert statuses(code, test, split=split) == verdicts


def test_a_test_whose_process_has_ended_does_not_pass():
    test = check(
        "items = candidate(1)",
        "assert next(items) == 0",
        "assert candidate(2) == 4",
        "assert next(items) == 1",
        "assert candidate(3) == 9",
    )
    code = "import os\ndef sq(x):\n    x == 2 and os._exit(1)\n    return iter(range(9)) if x == 1 else x * x"
    one_by_one = replace(instrument(test, "sq"), prefetch=False)
    sandbox = Sandbox(SHORT, workers=1, cache_size=0, seed=13)
    verdicts = [outcome.status for outcome in sandbox.run(program(code), one_by_one).tests]
    sandbox.close()
    assert verdicts == ["passed", "crashed", "crashed", "passed"]


# Arguments that a call changes


def test_timeouts_count_once_though_changed_arguments_need_a_second_run():
    test = check(*(f"assert candidate([{x}]) == {x}" for x in range(1, 5)))
    code = "def sq(x):\n    v = x[0]\n    while v < 3: pass\n    x.append(1)\n    return v"
    limits = Limits(load_seconds=2, test_seconds=0.3)
    assert statuses(code, test, limits) == ["timeout", "timeout", "passed", "passed"]


# Calls that are made ahead

DEPENDENT = check(
    "n = candidate(0)",
    "for i in range(n):",
    "    assert candidate(100 + i) == 1",
    "assert candidate(5) == 5",
)
CONDITIONAL = check(
    "if candidate(0) > 1:",
    "    assert candidate(1) == 1",
    "else:",
    "    assert candidate(2) == 2",
    "assert candidate(5) == 5",
)
TWICE = check("assert candidate(candidate(2)) == 5", "assert candidate(5) == 5")
WAYS = {
    "three": "def sq(x):\n    return 3 if x == 0 else 1 if x > 99 else x",
    "none": "def sq(x):\n    return 0 if x == 0 else x",
    "wrong": "def sq(x):\n    return 2 if x == 0 else 7",
    "fails": "def sq(x):\n    return [3, 1, 2, 3, 4, 5][x]",
    "ends": "import os\ndef sq(x):\n    x == 1 and os._exit(1)\n    return 2 if x == 0 else x",
    "counts": "calls = []\ndef sq(x):\n    calls.append(x)\n    return len(calls)",
}


@pytest.mark.parametrize("test", [DEPENDENT, CONDITIONAL, TWICE])
def test_verdicts_do_not_depend_on_the_programs_that_ran_before(test):
    tests = instrument(test, "sq")
    unplanned = replace(tests, prefetch=False)
    sandbox = Sandbox(SHORT, workers=1, cache_size=0, seed=11)
    alone = {}
    for name, code in WAYS.items():
        sandbox.close()
        alone[name] = sandbox.run(program(code), unplanned).tests
    for name in [*WAYS, *reversed(WAYS), "three", "three", *WAYS]:
        assert sandbox.run(program(WAYS[name]), tests).tests == alone[name], name
    sandbox.close()


def test_calls_that_a_test_does_not_make_cost_it_no_timeouts():
    hangs = "def sq(x):\n    while x > 99: pass\n    return 0 if x == 0 else 5"
    sandbox = Sandbox(Limits(2, 0.3), workers=1, cache_size=0, seed=12)
    tests = instrument(DEPENDENT, "sq")
    verdicts = [o.status for o in sandbox.run(program(hangs), tests).tests]
    assert verdicts == ["not_run", "passed"]
    sandbox.run(program(WAYS["three"]), tests)
    assert [o.status for o in sandbox.run(program(hangs), tests).tests] == verdicts
    sandbox.close()


def test_a_test_may_make_thousands_of_calls_but_not_without_end():
    for number, status in ((4000, "passed"), (9000, "error")):
        test = check(
            "first = candidate(0)",
            f"for i in range({number}):",
            "    assert candidate(first + i) == i * i",
        )
        (outcome,) = run(SQUARE, test, Limits()).tests
        assert outcome.status == status
    assert "more than 5000 operations" in outcome.message


# How often


def test_how_often_each_test_is_reached_is_counted():
    test = check(
        "for x in range(3):", "    assert candidate(x) == x * x", "assert candidate(5) == 25"
    )
    assert run(SQUARE, test).reached == (3, 1)
    assert run(SQUARE, test, split=False).reached == (3, 1)


def test_a_test_that_is_reached_too_rarely_does_not_pass():
    test = instrument(check("for x in candidate(3):", "    assert x < 9"), "sq").require_reached(
        [2]
    )
    sandbox = Sandbox(SHORT)
    for returned, status in (("[1, 2]", "passed"), ("[1]", "not_run"), ("[]", "not_run")):
        (outcome,) = sandbox.run(program(f"def sq(x):\n    return {returned}"), test).tests
        assert outcome.status == status


def test_calls_of_the_helper_are_counted_but_not_those_while_loading():
    segments = (
        ("aux_0", "def aux(x):\n    return x"),
        ("main_0", "aux(1)\ndef sq(x):\n    return aux(x) * aux(x)"),
    )
    tests = instrument(check("assert candidate(2) == 4", "assert candidate(3) == 9"), "sq")
    helpers = (("aux_0", "aux"),)
    execution = Sandbox(SHORT).run(Program(segments, "sq", helpers=helpers), tests)
    assert execution.helper_calls == (4,) and all(o.passed for o in execution.tests)
    assert Sandbox(SHORT).run(Program(segments, "sq"), tests).helper_calls == ()


def calls_of(*segments: tuple[str, str]) -> tuple[int, ...]:
    """Count the calls of the helpers `aux_0` and `aux_1`, of agents of these names, by one call of `sq`."""
    helpers = (("aux_0", "aux_0"), ("aux_1", "aux_1"))
    tests = instrument(check("assert candidate(2) != 'no number'"), "sq")
    return Sandbox(SHORT).run(Program(segments, "sq", helpers=helpers), tests).helper_calls


def test_calls_of_several_helpers_are_counted_one_by_one():
    first, second = (
        ("aux_0", "def aux_0(x):\n    return x"),
        ("aux_1", "def aux_1(x):\n    return x"),
    )
    main = "def sq(x):\n    return aux_1(x) * len(list(map(aux_0, 'ab')))"
    assert calls_of(first, second, ("main_0", main)) == (2, 1)
    assert calls_of(first, ("main_0", "def sq(x):\n    return aux_0(x)")) == (1, 0)


def test_what_helpers_call_among_themselves_is_not_counted_but_their_callbacks_are():
    first = ("aux_0", "def aux_0(x):\n    return x * 2")
    second = ("aux_1", "def aux_1(f, x):\n    return f(aux_0(x))")
    assert calls_of(first, second, ("main_0", "def sq(x):\n    return aux_1(int, x)")) == (0, 1)
    main = "def sq(x):\n    return aux_1(lambda y: aux_0(y), x)"
    assert calls_of(first, second, ("main_0", main)) == (1, 1)


def test_a_helper_that_main_hands_to_another_one_is_counted():
    first = ("aux_0", "def aux_0(x):\n    return x * 2")
    lazy = ("aux_1", "def aux_1(xs):\n    return sum(xs)")
    assert calls_of(
        first, lazy, ("main_0", "def sq(x):\n    return aux_1(map(aux_0, [x, 0]))")
    ) == (2, 1)
    caller = ("aux_1", "def aux_1(f, x):\n    return f(x)")
    assert calls_of(first, caller, ("main_0", "def sq(x):\n    return aux_1(aux_0, x)")) == (1, 1)


def test_what_a_helper_calls_by_another_name_is_not_counted():
    first = ("aux_0", "def aux_0(x):\n    return x * 2")
    second = ("aux_1", "other = aux_0\ndef aux_1(x):\n    return other(x)")
    assert calls_of(first, second, ("main_0", "def sq(x):\n    return aux_1(x)")) == (0, 1)


def test_a_helper_counts_as_its_own_author_defines_it():
    first = ("aux_0", "def aux_0(x):\n    return x\ndef aux_1(x):\n    return 0")
    second = ("aux_1", "def aux_1(x):\n    return x")
    main = ("main_0", "def sq(x):\n    return aux_0(x) * aux_1(x)")
    assert calls_of(first, second, main) == (1, 1)
    assert calls_of(first, main) == (1, 0)
    later = ("aux_1", "def aux_0(x):\n    return x\ndef aux_1(x):\n    return x")
    assert calls_of(first, later, main) == (0, 1)


# Tests that do not end


@pytest.mark.parametrize(
    "line", ["assert sum(range(candidate(1))) == 0", "assert 3 ** candidate(1) == 0"]
)
def test_a_test_that_never_ends_on_a_value_is_a_timeout_and_the_next_program_runs(line):
    test = check(line, "assert candidate(2) == 4")
    code = "def sq(x):\n    return 10**12"
    limits = Limits(load_seconds=5, test_seconds=0.5)
    assert statuses(code, test, limits, workers=1) == ["timeout", "timeout"]
    assert statuses(SQUARE, workers=1) == ["passed", "passed"]


def test_a_test_may_take_its_own_time_besides_that_of_the_calls():
    wait = "end = time.process_time() + 0.05\n        while time.process_time() < end: pass"
    test = "import time\n" + check(
        "for i in range(8):", f"    {wait}", "    assert candidate(i) == i * i"
    )
    code = "import time\ndef sq(x):\n    time.sleep(0.1)\n    return x * x"
    assert statuses(code, test, Limits(load_seconds=5, test_seconds=1)) == ["passed"]


def test_a_value_that_fills_the_tests_memory_fails_its_test_only():
    test = check("assert [0] * candidate(1) == []", "assert candidate(2) == 4")
    code = "def sq(x):\n    return 10**10 if x == 1 else 4"
    assert statuses(code, test) == ["memory", "passed"]
