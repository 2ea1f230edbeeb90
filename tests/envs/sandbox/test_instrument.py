"""Tests of tests: every assert is counted, whatever stands around it."""

from __future__ import annotations

import pytest

from llm_decpomdp.envs.sandbox import Limits, Program, Sandbox, instrument

SANDBOX = Sandbox(Limits(load_seconds=5, test_seconds=5))
SQ = "def sq(x):\n    return x * x"


def check(body: str, header: str = "def check(candidate):", around: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{around}\n{header}\n{lines}"


def outcomes(test: str, code: str = SQ, entry_point: str = "sq"):
    program = Program((("main_0", code),), entry_point)
    return SANDBOX.run(program, instrument(test, entry_point)).tests


def passes(test: str, code: str = SQ, entry_point: str = "sq") -> list[bool]:
    return [outcome.passed for outcome in outcomes(test, code, entry_point)]


def test_t1_an_assert_over_several_lines_is_whole():
    test = check("assert candidate(1,\n        2) == 3\nassert candidate(2) == 4")
    code = "def add(a, b=2):\n    return a + b"
    assert instrument(test, "add").cases == ("assert add(1, 2) == 3", "assert add(2) == 4")
    assert passes(test, code, "add") == [True, True]


def test_t2_a_loop_is_run_and_its_assert_is_one_test():
    test = check("for i in range(3):\n    assert candidate(i) == i*i")
    assert passes(test) == [True]
    (failed,) = outcomes(test, "def sq(x):\n    return x * x if x < 2 else 0")
    assert not failed.passed and failed.case == "assert sq(i) == i * i"


def test_t3_set_up_is_kept():
    test = check(
        "data = [1, 2]\nassert candidate(data) == 3\ndata.append(4)\nassert candidate(data) == 7"
    )
    assert passes(test, "def total(xs):\n    return sum(xs)", "total") == [True, True]


def test_t4_a_literal_that_holds_the_word_candidate_is_untouched():
    test = check("assert candidate('the candidate won') == 3")
    code = "def count_words(text):\n    return len(text.split()) if 'candidate' in text else -1"
    assert instrument(test, "count_words").cases == (
        "assert count_words('the candidate won') == 3",
    )
    assert passes(test, code, "count_words") == [True]


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


def test_the_parameter_may_have_any_name():
    test = check("assert f(2) == 4\nassert [f(i) for i in (1, 2)] == [1, 4]", "def check(f):")
    assert instrument(test, "sq").cases[0] == "assert sq(2) == 4"
    assert passes(test) == [True, True]


def test_t6_another_name_for_the_function_works():
    assert passes(check("f = candidate\nassert f(1) == 1\nassert f(1) == 1")) == [True, True]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(x):\n    if x < 0:\n        raise ValueError\n    return x", [True, True]),
        ("def f(x):\n    return x", [False, True]),
        ("def f(x):\n    if x < 0:\n        raise TypeError\n    return x", [False, True]),
    ],
)
def test_t7_an_exception_test_is_kept(code, expected):
    body = "try:\n    candidate(-1)\n    assert False, 'must raise'\nexcept ValueError:\n    pass"
    assert passes(check(f"{body}\nassert candidate(2) == 2"), code, "f") == expected


def test_t8_two_asserts_on_one_line_are_two_tests():
    assert passes(check("assert candidate(1) == 1; assert candidate(2) == 5")) == [True, False]


def test_t9_helper_functions_may_stand_anywhere():
    body = (
        "assert candidate(1) == 1\n\ndef inner(x):\n    return x + 1\n\n"
        "assert inner(candidate(1)) == 2\nassert outer(candidate(2)) == 5"
    )
    around = "def outer(x):\n    return x + 1\n"
    assert passes(check(body, around=around)) == [True] * 3
    assert passes(check(body) + "\n" + around) == [True] * 3


def test_imports_and_constants_before_the_test_function_are_run():
    around = "import math\nMETADATA = {'author': 'x'}\nNINE = 9\n"
    test = check("assert math.isclose(candidate(3), NINE)", around=around)
    assert passes(test) == [True]


def test_asserts_in_a_helper_of_the_test_count():
    around = "def same(a, b):\n    assert a == b, 'differ'\n"
    test = check("same(candidate(2), 4)\nsame(candidate(3), 9)", around=around)
    assert passes(test) == [True]
    (failed,) = outcomes(test, "def sq(x):\n    return 4")
    assert failed.message == "AssertionError: differ"


def test_a_call_of_the_test_function_is_not_a_second_run():
    test = check("assert candidate(2) == 4") + "\ncheck(sq)\n"
    assert passes(test) == [True]
    test = check("assert candidate(2) == 4") + "\nif __name__ == '__main__':\n    check(sq)\n"
    assert passes(test) == [True]


def test_plain_asserts_without_a_test_function_count():
    test = "values = [1, 2]\nassert sq(values[1]) == 4\nassert sq(3) == 8\n"
    assert instrument(test, "sq").cases == ("assert sq(values[1]) == 4", "assert sq(3) == 8")
    assert passes(test) == [True, False]


def test_an_assert_about_a_constant_tests_nothing():
    test = check("assert True, 'so far so good'\nassert candidate(2) == 4\nassert 1")
    assert instrument(test, "sq").cases == ("assert sq(2) == 4",)
    assert passes(test) == [True]


def test_a_failing_assert_does_not_stop_the_others():
    test = check(
        "assert candidate(2) == 5\nassert candidate(2) == 4\nassert candidate('a')\nassert True == 1"
    )
    assert passes(test) == [False, True, False, True]


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


def test_a_computed_message_cannot_fail_the_test():
    assert passes(check("assert candidate(2) == 4, 1 / 0")) == [True]


def test_a_test_cannot_replace_the_function_for_the_next_one():
    body = "candidate = None\nassert candidate is None"
    assert passes(check(body)) == [True]


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
    assert instrument(check("assert candidate(2) == 4"), "sq") is instrument(
        check("assert candidate(2) == 4"), "sq"
    )


def test_a_guard_in_a_helper_outside_the_test_function_can_be_passed() -> None:
    test = (
        "def must_raise(f):\n    try:\n        f(-1)\n    except ValueError:\n        return\n"
        "    assert False\n"
        "def check(candidate, /):\n    must_raise(candidate)\n    assert candidate(2) == 2\n"
    )
    tests = instrument(test, "f")
    good = "def f(x):\n    if x < 0:\n        raise ValueError\n    return x"
    for code, passed in ((good, [True, True]), ("def f(x):\n    return x", [False, True])):
        results = Sandbox().run(Program((("main_0", code),), "f"), tests).tests
        assert [outcome.passed for outcome in results] == passed


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
