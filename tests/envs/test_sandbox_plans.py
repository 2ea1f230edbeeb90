"""Calls that are made ahead, learnt from the programs before: they give nothing away and decide nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from llm_decpomdp.envs.sandbox import Execution, Limits, Sandbox, instrument
from tests.envs.sandboxed import SHORT, check, program

PLAN = """
import marshal, sys

def plan():
    frame = sys._getframe()
    while "calls" not in (frame.f_locals.get("request") or ()):
        frame = frame.f_back
    return [marshal.loads(call[1:])[0] for call in frame.f_locals["request"]["calls"]]

PLAN = plan()
print(PLAN)
"""
"""Code that finds in the frames above what its process was asked ahead."""

CHEAT = (
    PLAN
    + """
def sq(*arguments):
    # Another call's argument may be this one's answer.
    values = [value for call in PLAN for value in call if call != list(arguments)]
    wanted = [value for value in values if value not in arguments and type(value) is KIND]
    return wanted[-1] if wanted else None
"""
)


@pytest.fixture
def one() -> Iterator[Sandbox]:
    """A sandbox with a single worker that knows nothing, and that no other test uses."""
    sandbox = Sandbox(SHORT, workers=1, cache_size=0, seed=21)
    sandbox.close()
    yield sandbox
    sandbox.close()


def run(sandbox: Sandbox, code: str, test: str) -> Execution:
    return sandbox.run(program(code), instrument(test, "sq"))


def statuses(execution: Execution) -> list[str]:
    return [outcome.status for outcome in execution.tests]


# What a program learns

CAESAR = "def sq(s, k):\n    return ''.join(chr((ord(c) - 97 + k) % 26 + 97) for c in s)"
CIPHER = check(
    'enc = candidate("hello", 3)',
    'assert enc == "khoor"',
    'assert candidate(enc, -3) == "hello"',
)
COUNT = "def sq(n):\n    return 7 if n == 1 else 0"
TELLTALES = {
    "an answer as an argument": ("str", CAESAR, CIPHER),
    "an answer in an answer's place": (
        "str",
        CAESAR,
        check('assert candidate(candidate("hello", 3), -3) == "hello"'),
    ),
    "an argument that a call changed": (
        "list",
        "def sq(xs):\n    xs.sort()\n    return len(xs)",
        check("xs = [3, 1, 2]", "candidate(xs)", "assert candidate(xs) == 3", "assert xs[0] == 1"),
    ),
    "an answer appended to a list": (
        "list",
        COUNT,
        check("box = []", "box.append(candidate(1))", "assert candidate(box) == 0"),
    ),
    "an answer that a callback gets": (
        "list",
        "def sq(f):\n    return 0 if type(f) is list else f(7)",
        check("box = []", "candidate(box.append)", "assert candidate(box) == 0"),
    ),
    "the number of the items": (
        "int",
        "def sq(n):\n    return range(n + 4)",
        check("n = 0", "for x in candidate(1):", "    n += 1", "assert candidate(n)[0] == 0"),
    ),
    "the number of rounds until a break": (
        "int",
        COUNT,
        check(
            "n = 2", "while candidate(1) != n:", "    n += 1", "assert candidate(n) == 0"
        ),
    ),
    "a loop that an answer ends": (
        "int",
        COUNT,
        check(
            "for n in range(2, 9):",
            "    if candidate(1) == n:",
            "        break",
            "assert candidate(n) == 0",
        ),
    ),
    "the text of an exception": (
        "str",
        "def sq(n):\n    if n == 1:\n        raise ValueError('seven')\n    return 0",
        check(
            "n = ''",
            "try:",
            "    candidate(1)",
            "except ValueError as error:",
            "    n = str(error)",
            "assert candidate(n) == 0",
        ),
    ),
    "an answer that is matched": (
        "int",
        COUNT,
        check("match candidate(1):", "    case n:", "        assert candidate(n) == 0"),
    ),
    "a global variable that a function sets": (
        "int",
        "def sq(f):\n    return f(7) if callable(f) else 0",
        "n = 0\n"
        + check(
            "def keep(x):", "    global n", "    n = x", "candidate(keep)", "assert candidate(n) == 0"
        ),
    ),
}
"""Kind of value that tells, an honest program, and a test whose later arguments come from its answers."""


@pytest.mark.parametrize(("kind", "honest", "test"), TELLTALES.values(), ids=TELLTALES)
def test_no_program_sees_what_the_answers_of_another_led_to(one, kind, honest, test):
    cheat = CHEAT.replace("KIND", kind)
    before = run(one, cheat, test)
    for _ in range(3):
        assert set(statuses(run(one, honest, test))) == {"passed"}
    after = run(one, cheat, test)
    assert after.output == before.output and after.tests == before.tests


def test_calls_whose_arguments_come_from_answers_are_not_fixed():
    for name, (_, _, test) in TELLTALES.items():
        assert not instrument(test, "sq").fixed, name


@pytest.mark.parametrize(
    "lines",
    [
        ("ys = [1, 2]", "ys.append(candidate(1))", "assert candidate(len(ys)) == 1"),
        ("n = 1", "n += candidate(1)", "assert candidate(n) == 1"),
        ("assert (n := candidate(1)) == 1", "assert candidate(n) == 1"),
        ("d = {}", "d['a'] = candidate(1)", "assert candidate(d) == 1"),
        ("n = 1", "if candidate(1):", "    n = 2", "assert candidate(n) == 1"),
        ("n = 2 if candidate(1) else 3", "assert candidate(n) == 1"),
        ("for x in candidate(1):", "    assert candidate(x) == 1"),
        ("assert [candidate(x) for x in candidate(3)] == [1]"),
        ("def again(x):", "    return candidate(x)", "assert candidate(again(1)) == 1"),
        ("assert list(map(candidate, [1])) == [1]",),
        ("function = candidate", "assert function(function(1)) == 1"),
        ("assert candidate(x=candidate(1)) == 1",),
    ],
    ids=lambda lines: lines[-2] if isinstance(lines, tuple) and len(lines) > 1 else lines[0],
)
def test_what_an_answer_may_have_touched_is_not_fixed(lines):
    lines = (lines,) if isinstance(lines, str) else lines
    assert not instrument(check(*lines), "sq").fixed


# What is learnt

LEARNT = {
    "a loop": (check("for x in [2, 3, 4]:", "    assert candidate(x) == x * x"), 3),
    "a loop over a range": (check("for x in range(5):", "    assert candidate(x) == x * x"), 5),
    "a comprehension": (check("assert [candidate(x) for x in range(3)] == [0, 1, 4]"), 3),
    "a table of cases": (
        check("for x, y in [(2, 4), (3, 9)]:", "    assert candidate(x) == y"),
        2,
    ),
    "a table outside": (
        "CASES = [(2, 4), (3, 9)]\n"
        + check("for x, y in CASES:", "    assert candidate(x) == y", "assert len(CASES) == 2"),
        2,
    ),
    "a variable": (check("n = 1 + 1", "assert candidate(n) == 4"), 1),
    "several arguments by a star": (check("assert candidate(*[3]) == 9"), 1),
    "a result kept apart": (
        check("for x in [2, 3]:", "    y = candidate(x)", "    assert y == x * x"),
        2,
    ),
}


@pytest.mark.parametrize(("test", "number"), LEARNT.values(), ids=LEARNT)
def test_calls_with_fixed_arguments_are_learnt_and_the_verdicts_stay(one, test, number):
    assert instrument(test, "sq").fixed
    code = f"{PLAN.replace('print(PLAN)', 'print(len(PLAN))')}\ndef sq(x):\n    return x * x"
    first, *others = (run(one, code, test) for _ in range(3))
    assert int(first.output) < number
    assert [int(execution.output) for execution in others] == [number] * 2
    assert {execution.tests for execution in others} == {first.tests}
    assert set(statuses(first)) == {"passed"}


WRONG = {
    "wrong": "def sq(x):\n    return x * x + (x == 3)",
    "raises": "def sq(x):\n    if x == 3:\n        raise KeyError(x)\n    return x * x",
    "hangs": "def sq(x):\n    while x == 3:\n        pass\n    return x * x",
    "ends": "import os\ndef sq(x):\n    x == 3 and os._exit(1)\n    return x * x",
    "counts": "seen = []\ndef sq(x):\n    seen.append(x)\n    return x * x if len(seen) < 3 else 0",
}


@pytest.mark.parametrize("code", WRONG.values(), ids=WRONG)
def test_wrong_programs_fail_alike_before_and_after_a_loop_is_learnt(one, code):
    test = check("for x in [2, 3, 4]:", "    assert candidate(x) == x * x", "assert candidate(5) == 25")
    before = run(one, code, test)
    for _ in range(2):
        run(one, "def sq(x):\n    return x * x", test)
    after = run(one, code, test)
    assert after.tests == before.tests and after.reached == before.reached
    assert before.tests[0].status != "passed"


def test_a_huge_answer_costs_the_honest_programs_after_it_nothing():
    collatz = check(
        "n = candidate(6)",
        "assert n == 3",
        "n = candidate(n)",
        "assert n == 10",
        "n = candidate(n)",
        "assert n == 5",
    )
    honest = (
        PLAN
        + "def sq(n):\n    for _ in range(n):\n        pass\n    return 3 * n + 1 if n % 2 else n // 2"
    )
    sandbox = Sandbox(Limits(load_seconds=2, test_seconds=1), workers=1, cache_size=0, seed=22)
    for huge in ("10**12", "10**12 + n"):
        run(sandbox, f"def sq(n):\n    return {huge}", collatz)
        execution = run(sandbox, honest, collatz)
        assert statuses(execution) == ["passed"] * 3
        assert execution.output == "[[6]]\n" and execution.seconds < 0.5
    sandbox.close()
