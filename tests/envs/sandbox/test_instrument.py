"""Tests of tests: every assert is counted, whatever stands around it."""

from __future__ import annotations

import pytest

from llm_decpomdp.envs.sandbox import Limits, Program, Sandbox, instrument

SANDBOX = Sandbox(Limits(load_seconds=5, test_seconds=5))
SQ = "def sq(x):\n    return x * x"


def check(body: str, header: str = "def check(candidate):", around: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{around}\n{header}\n{lines}"


def outcomes(test: str, code: str = SQ):
    return SANDBOX.run(Program((("main_0", code),), "sq"), instrument(test, "sq")).tests


def passes(test: str, code: str = SQ) -> list[bool]:
    return [outcome.passed for outcome in outcomes(test, code)]


ADD = "def sq(a, b=2):\n    return a + b"
TOTAL = "def sq(xs):\n    return sum(xs)"
WORDS = "def sq(text):\n    return len(text.split()) if 'candidate' in text else -1"
TAKEN = "data = [1, 2]\nassert candidate(data) == 3\ndata.append(4)\nassert candidate(data) == 7"
RAISES = "try:\n    candidate(-1)\n    assert False, 'must raise'\nexcept ValueError:\n    pass"
RAISES += "\nassert candidate(2) == 2"
REFUSES = "def sq(x):\n    if x < 0:\n        raise {}\n    return x"
AROUND = "import math\nMETADATA = {'author': 'x'}\nNINE = 9\n"
OUTER = "def outer(x):\n    return x + 1\n"
INNER = """assert candidate(1) == 1

def inner(x):
    return x + 1

assert inner(candidate(1)) == 2
assert outer(candidate(2)) == 5"""
SAME = "def same(a, b):\n    assert a == b, 'differ'\n"
CASES = {
    "t1 an assert over several lines": (
        check("assert candidate(1,\n        2) == 3\nassert candidate(2) == 4"), ADD, [True, True]
    ),
    "t2 a loop": (check("for i in range(3):\n    assert candidate(i) == i*i"), SQ, [True]),
    "t3 set-up": (check(TAKEN), TOTAL, [True, True]),
    "t4 a literal with the parameter": (check("assert candidate('the candidate won') == 3"), WORDS, [True]),
    "another parameter": (
        check("assert f(2) == 4\nassert [f(i) for i in (1, 2)] == [1, 4]", "def check(f):"), SQ, [True, True]
    ),
    "t6 another name": (check("f = candidate\nassert f(1) == 1\nassert f(1) == 1"), SQ, [True, True]),
    "t7 an exception": (check(RAISES), REFUSES.format("ValueError"), [True, True]),
    "t7 no exception": (check(RAISES), "def sq(x):\n    return x", [False, True]),
    "t7 another exception": (check(RAISES), REFUSES.format("TypeError"), [False, True]),
    "t8 two asserts on one line": (check("assert candidate(1) == 1; assert candidate(2) == 5"), SQ, [True, False]),
    "t9 functions before": (check(INNER, around=OUTER), SQ, [True] * 3),
    "t9 functions after": (check(INNER) + "\n" + OUTER, SQ, [True] * 3),
    "imports and constants before": (check("assert math.isclose(candidate(3), NINE)", around=AROUND), SQ, [True]),
    "asserts in a function": (check("same(candidate(2), 4)\nsame(candidate(3), 9)", around=SAME), SQ, [True]),
    "a call of the test function": (check("assert candidate(2) == 4") + "\ncheck(sq)\n", SQ, [True]),
    "a call if it is the main module": (
        check("assert candidate(2) == 4") + "\nif __name__ == '__main__':\n    check(sq)\n", SQ, [True]
    ),
    "no test function": ("values = [1, 2]\nassert sq(values[1]) == 4\nassert sq(3) == 8\n", SQ, [True, False]),
    "asserts of constants": (check("assert True, 'so far'\nassert candidate(2) == 4\nassert 1"), SQ, [True]),
    "a failing assert": (
        check("assert candidate(2) == 5\nassert candidate(2) == 4\nassert candidate('a')\nassert True == 1"),
        SQ, [False, True, False, True],
    ),
    "a message that is computed": (check("assert candidate(2) == 4, 1 / 0"), SQ, [True]),
    "a test that replaces the function": (check("candidate = None\nassert candidate is None"), SQ, [True]),
}  # fmt: skip


@pytest.mark.parametrize(("test", "code", "expected"), CASES.values(), ids=CASES)
def test_every_assert_is_a_test(test, code, expected):
    assert passes(test, code) == expected


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("t1 an assert over several lines", ("assert sq(1, 2) == 3", "assert sq(2) == 4")),
        ("t4 a literal with the parameter", ("assert sq('the candidate won') == 3",)),
        ("another parameter", ("assert sq(2) == 4", "assert [sq(i) for i in (1, 2)] == [1, 4]")),
        ("no test function", ("assert sq(values[1]) == 4", "assert sq(3) == 8")),
        ("asserts of constants", ("assert sq(2) == 4",)),
    ],
)
def test_a_case_is_the_text_of_its_assert(name, cases):
    assert instrument(CASES[name][0], "sq").cases == cases


@pytest.mark.parametrize(
    "header",
    [
        "def check(candidate) :",
        "def check( candidate ):",
        "def check(candidate: callable):",
        "def check(candidate) -> None:",
        "def check(candidate, more=None):",
        "def check(\n    candidate,\n):",
    ],
)
def test_t5_headers_may_be_written_in_any_way(header):
    assert passes(check("assert candidate(2) == 4", header)) == [True]


def test_a_failure_in_a_loop_or_a_function_is_one_of_its_test():
    (failed,) = outcomes(CASES["t2 a loop"][0], "def sq(x):\n    return x * x if x < 2 else 0")
    assert not failed.passed and failed.case == "assert sq(i) == i * i"
    (failed,) = outcomes(CASES["asserts in a function"][0], "def sq(x):\n    return 4")
    assert failed.message == "AssertionError: differ"


def test_an_exception_outside_an_assert_ends_its_statement_only():
    loop = "for i in (1, 'a'):\n    y = candidate(i)\n    assert y == 1\n"
    body = f"x = candidate('a')\nassert x == 1\n{loop}assert candidate(1) == 1"
    first, loop, last = outcomes(check(body))
    assert (first.passed, loop.passed, last.passed) == (False, False, True)
    assert first.message.startswith("UnboundLocalError")
    assert loop.message.startswith("TypeError") and (loop.origin, loop.line) == ("main_0", 2)


def test_an_assert_that_is_never_reached_does_not_pass():
    (outcome,) = outcomes(check("for i in []:\n    assert candidate(i) == 1"))
    assert not outcome.passed and outcome.status == "not_run"


def test_the_text_of_a_test_is_bounded():
    (case,) = instrument(check(f"assert candidate([{'1, ' * 900}]) == 4"), "sq").cases
    assert case.startswith("assert sq([1, 1") and len(case) < 600


@pytest.mark.parametrize(
    "test",
    ["def check(candidate:", "\x00", "assert " + "(" * 300, "assert sq(" + "1 + " * 5000 + "1)"],
)
def test_a_test_that_does_not_parse_is_refused(test):
    with pytest.raises(ValueError, match="does not parse"):
        instrument(test, "sq")


def test_equal_tests_are_instrumented_once():
    test = check("assert candidate(2) == 4")
    assert instrument(test, "sq") is instrument(test, "sq")


def test_a_guard_in_a_helper_outside_the_test_function_can_be_passed() -> None:
    test = (
        "def must_raise(f):\n    try:\n        f(-1)\n    except ValueError:\n        return\n"
        "    assert False\n"
        "def check(candidate, /):\n    must_raise(candidate)\n    assert candidate(2) == 2\n"
    )
    assert passes(test, REFUSES.format("ValueError")) == [True, True]
    assert passes(test, "def sq(x):\n    return x") == [False, True]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("xs = [2, 1]\nassert candidate(xs) is None\nassert xs == [1, 2]", (True, False)),
        ("xs = [2, 1]\ny = candidate(xs)\nassert y == sorted(xs)", (True,)),
        ("xs = [2, 1]\nassert (y := candidate(xs))\nassert y == sorted(xs)", (True, True)),
        ("r = []\nxs = [2, 1]\nr.append(candidate(xs))\nassert r == [sorted(xs)]", (True,)),
        ("n = 0\nxs = [2]\nfor _ in candidate(xs):\n    n += 1\nassert n == len(xs)", (True,)),
        ("n = xs = [2]\ntry:\n    candidate(xs)\nexcept ValueError:\n    n = 1\nassert n", (True,)),
        ("box = []\nxs = [2]\ncandidate(box.append, xs)\nassert box == [sum(xs)]", (True,)),
    ],
)
def test_what_a_test_learns_from_results_is_told_from_what_happened_to_arguments(body, expected):
    assert instrument(check(body), "sq").judges_result == expected
