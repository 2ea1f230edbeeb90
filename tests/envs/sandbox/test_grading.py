"""Outcomes come from values, whatever way the test asks for them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import llm_decpomdp
from llm_decpomdp.envs import program_reward
from llm_decpomdp.envs.sandbox import Limits, Program, Sandbox, instrument
from tests.envs.sandboxed import SHORT, WRONG, program, run, statuses
from tests.support.programs import SQUARE, check

both = pytest.mark.parametrize("split", [True, False])
SWALLOW = ("try:", "    candidate(2)", "except:", "    pass", "else:", "    assert False")


# One statement and the next


@both
def test_a_statement_that_fails_spoils_those_that_use_its_variables(split):
    lines = ("xs = [1]", "ys = [1]", "xs.append(candidate(2))")
    asserts = ("assert len(xs) == 1", "assert len(ys) == 1", "assert candidate(3) == 9")
    test = check(*lines, *asserts)
    code = "def sq(x):\n    return x * x if x == 3 else 1 / 0"
    assert statuses(code, test, split=split) == ["error", "passed", "passed"]


@both
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


@both
def test_tests_after_a_timeout_are_run(split):
    test = check(*(f"assert candidate({x}) == {x}" for x in range(5)))
    code = "import os\ndef sq(x):\n    while x == 1: pass\n    x == 3 and os._exit(1)\n    return x"
    expected = ["passed", "timeout", "passed", "crashed", "passed"]
    assert statuses(code, test, split=split) == expected


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
    expected = [outcome.status for outcome in sandbox.run(program(code), one_by_one).tests]
    sandbox.close()
    assert expected == ["passed", "crashed", "crashed", "passed"]


# Arguments that a call changes


def test_timeouts_count_once_though_changed_arguments_need_a_second_run():
    test = check(*(f"assert candidate([{x}]) == {x}" for x in range(1, 5)))
    code = "def sq(x):\n    v = x[0]\n    while v < 3: pass\n    x.append(1)\n    return v"
    limits = Limits(load_seconds=2, test_seconds=0.3)
    assert statuses(code, test, limits) == ["timeout", "timeout", "passed", "passed"]


# Calls that are made ahead

LOOP = ("for i in range(n):", "    assert candidate(100 + i) == 1")
BRANCHES = ("    assert candidate(1) == 1", "else:", "    assert candidate(2) == 2")
DEPENDENT = check("n = candidate(0)", *LOOP, "assert candidate(5) == 5")
CONDITIONAL = check("if candidate(0) > 1:", *BRANCHES, "assert candidate(5) == 5")
TWICE = check("assert candidate(candidate(2)) == 5", "assert candidate(5) == 5")
FORESEEN = check(
    "for x in [2, 3, 4]:", "    assert candidate(x) == x * x", "assert candidate(5) == 25"
)
WAYS = {
    **WRONG,
    "three": "def sq(x):\n    return 3 if x == 0 else 1 if x > 99 else x",
    "none": "def sq(x):\n    return 0 if x == 0 else x",
    "wrong": "def sq(x):\n    return 2 if x == 0 else 7",
    "fails": "def sq(x):\n    return [3, 1, 2, 3, 4, 5][x]",
    "ends": "import os\ndef sq(x):\n    x == 1 and os._exit(1)\n    return 2 if x == 0 else x",
    "counts": "calls = []\ndef sq(x):\n    calls.append(x)\n    return len(calls)",
}


@pytest.mark.parametrize("test", [DEPENDENT, CONDITIONAL, TWICE, FORESEEN])
def test_outcomes_do_not_depend_on_the_programs_that_ran_before(test):
    tests = instrument(test, "sq")
    unplanned = replace(tests, prefetch=False)
    sandbox = Sandbox(SHORT, workers=1, cache_size=0, seed=11)
    alone = {}
    for name, code in WAYS.items():
        sandbox.close()
        execution = sandbox.run(program(code), unplanned)
        alone[name] = execution.tests, execution.reached
    for name in [*WAYS, *reversed(WAYS), "three", "three", "none"]:
        execution = sandbox.run(program(WAYS[name]), tests)
        assert (execution.tests, execution.reached) == alone[name], name
    sandbox.close()


def test_calls_that_a_test_does_not_make_cost_it_no_timeouts():
    hangs = "def sq(x):\n    while x > 99: pass\n    return 0 if x == 0 else 5"
    sandbox = Sandbox(Limits(2, 0.3), workers=1, cache_size=0, seed=12)
    tests = instrument(DEPENDENT, "sq")
    expected = [o.status for o in sandbox.run(program(hangs), tests).tests]
    assert expected == ["not_run", "passed"]
    sandbox.run(program(WAYS["three"]), tests)
    assert [o.status for o in sandbox.run(program(hangs), tests).tests] == expected
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
    test = instrument(check("for x in candidate(3):", "    assert x < 9"), "sq").raise_minimum([2])
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


SAME = "def aux_0(x):\n    return x"
DOUBLE = "def aux_0(x):\n    return x * 2"
TWICE_1 = "def aux_1(f, x):\n    return f(aux_0(x))"
SECOND = "def aux_1(x):\n    return x"
BOTH = "def sq(x):\n    return aux_0(x) * aux_1(x)"


@pytest.mark.parametrize(
    ("first", "second", "main", "calls"),
    [
        (SAME, SECOND, "def sq(x):\n    return aux_1(x) * len(list(map(aux_0, 'ab')))", (2, 1)),
        (SAME, "", "def sq(x):\n    return aux_0(x)", (1, 0)),
        # Calls of helpers among themselves are not counted, but their callbacks are.
        (DOUBLE, TWICE_1, "def sq(x):\n    return aux_1(int, x)", (0, 1)),
        (DOUBLE, TWICE_1, "def sq(x):\n    return aux_1(lambda y: aux_0(y), x)", (1, 1)),
        # A helper that main hands to another one is counted.
        (DOUBLE, "def aux_1(xs):\n    return sum(xs)", "def sq(x):\n    return aux_1(map(aux_0, [x, 0]))", (2, 1)),
        (DOUBLE, "def aux_1(f, x):\n    return f(x)", "def sq(x):\n    return aux_1(aux_0, x)", (1, 1)),
        # A call by another name is not counted.
        (DOUBLE, "other = aux_0\ndef aux_1(x):\n    return other(x)", "def sq(x):\n    return aux_1(x)", (0, 1)),
        # A helper counts as its own author defines it.
        (SAME + "\ndef aux_1(x):\n    return 0", SECOND, BOTH, (1, 1)),
        (SAME + "\ndef aux_1(x):\n    return 0", "", BOTH, (1, 0)),
        (SAME + "\ndef aux_1(x):\n    return 0", f"{SAME}\n{SECOND}", BOTH, (0, 1)),
    ],
)  # fmt: skip
def test_calls_of_several_helpers_are_counted_one_by_one(first, second, main, calls):
    segments = [("aux_0", first), ("aux_1", second), ("main_0", main)]
    helpers = (("aux_0", "aux_0"), ("aux_1", "aux_1"))
    tests = instrument(check("assert candidate(2) != 'no number'"), "sq")
    team = Program(tuple(part for part in segments if part[1]), "sq", helpers=helpers)
    assert Sandbox(SHORT).run(team, tests).helper_calls == calls


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


# Warnings of tests that do not end

ENDLESS = check("x = candidate(3)", "while x > 0:", "    x += 0", "assert x")
PLAIN = check("assert candidate(3) == 6")


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Grades a program on a row with a test that loops, or on one without, with short limits."""
    monkeypatch.setattr(program_reward, "_PROGRAMS", {})
    row = {"prompt": 'def double(x):\n    """Double."""\n', "entry_point": "double"}
    rows = [{**row, "task_id": name, "test": test} for name, test in (("a", ENDLESS), ("b", PLAIN))]
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in rows))
    env = llm_decpomdp.make("humaneval-v0", source=str(path), num_agents=1)
    env.reward = replace(env.reward, sandbox=Sandbox(SHORT))  # type: ignore[type-var]

    def grade(task: str, body: str) -> None:
        env.reset(options={"task_id": task})
        env.step({"main_0": f"def double(x):\n    {body}"})

    return grade


def test_a_test_that_does_not_end_for_two_programs_is_told_of_once_by_its_task(
    play: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for body in ("return x + x", "return x + x"):  # one program
        play("a", body)
    assert not caplog.records
    for body in ("return 2 * x", "return x * 2"):
        play("a", body)
    (record,) = caplog.records
    message = record.getMessage()
    assert message.startswith("task 'a': the test did not end on the program's values within 0.7 s")
    assert "llm-decpomdp check data" in message


def test_endless_programs_say_no_test(play: Any, caplog: pytest.LogCaptureFixture) -> None:
    for body in ("while True: pass\n    return 1", "while x: pass\n    return 1"):
        play("b", body)
    assert not caplog.records
