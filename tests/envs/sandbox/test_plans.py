"""Calls that are made ahead: they give nothing away and decide nothing, and hidden ones come last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

import llm_decpomdp
from llm_decpomdp.envs.sandbox import Execution, Limits, Sandbox, instrument
from tests.envs.sandboxed import SHORT, WRONG, program
from tests.support.programs import check

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

# Another call's argument may be this one's answer.
GUESS = PLAN + "GUESS = PLAN[-1][0] if len(PLAN) > 1 else None\n"


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
DECIPHER = "def sq(s, k):\n    return GUESS if k > 0 else 'hello'"
SEVEN = "def sq(n):\n    return 7 if n == 1 else 0"
GUESSED = "def sq(n):\n    return GUESS if n == 1 else 0"
LEAKS = {
    "an answer as an argument": (
        *(CAESAR, DECIPHER, "enc = candidate('hello', 3)", "assert enc == 'khoor'"),
        "assert candidate(enc, -3) == 'hello'",
    ),
    "an answer in its own call": (
        *(CAESAR, DECIPHER, "assert candidate(candidate('hello', 3), -3) == 'hello'"),
        "assert candidate('hello', 3) == 'khoor'",
    ),
    "an argument that a call changed": (
        "def sq(xs):\n    xs.sort()",
        "def sq(xs):\n    xs[:] = GUESS or xs",
        *("xs = [3, 1, 2]", "candidate(xs)", "assert xs == [1, 2, 3]", "candidate(xs)"),
    ),
    "an answer in a list": (
        "def sq(n):\n    return 7 if n == 1 else n[0]",
        "def sq(n):\n    return GUESS and GUESS[0] if n == 1 else n[0]",
        *(
            "box = []",
            "box.append(candidate(1))",
            "assert box == [7]",
            "assert candidate(box) == 7",
        ),
    ),
    "an answer that decides": (
        *(SEVEN, GUESSED.replace("GUESS if", "(7 if GUESS == 2 else None) if")),
        *("n = 1", "if candidate(1) == 7:", "    n = 2", "assert n == 2", "candidate(n)"),
    ),
    "an answer that is counted up to": (
        *(SEVEN, GUESSED, "n = 2", "while candidate(1) != n and n < 9:", "    n += 1"),
        *("assert n == 7", "candidate(n)"),
    ),
    "an answer that ends a loop": (
        *(SEVEN, GUESSED, "for n in range(2, 9):", "    if candidate(1) == n:", "        break"),
        *("assert n == 7", "candidate(n)"),
    ),
    "a number of items": (
        "def sq(n):\n    return range(7)",
        "def sq(n):\n    return range(GUESS or 0)",
        *("n = 0", "for _ in candidate(1):", "    n += 1", "assert n == 7", "candidate(n)"),
    ),
    "an exception's text": (
        "def sq(n):\n    if n == 1:\n        raise ValueError('seven')",
        "def sq(n):\n    if n == 1:\n        raise ValueError(GUESS)",
        *("try:", "    candidate(1)", "except ValueError as error:", "    n = str(error)"),
        *("assert n == 'seven'", "candidate(n)"),
    ),
    "whether there is an exception": (
        "def sq(n):\n    if n == 1:\n        raise ValueError",
        "def sq(n):\n    if GUESS == 2:\n        raise ValueError",
        *("n = 1", "try:", "    candidate(1)", "except ValueError:", "    n = 2"),
        *("assert n == 2", "candidate(n)"),
    ),
    "an answer that is matched": (
        *(SEVEN, GUESSED, "match candidate(1):", "    case n:", "        assert n == 7"),
        "candidate(n)",
    ),
    "a callback's argument": (
        "def sq(f):\n    return f(7) if callable(f) else 0",
        "def sq(f):\n    return f(GUESS) if callable(f) else 0",
        *("box = []", "def keep(x):", "    box.append(x)", "candidate(keep)"),
        *("n = box[0]", "assert n == 7", "candidate(n)"),
    ),
}
"""An honest program, one that guesses, and a test whose later arguments come from its answers."""


@pytest.mark.parametrize("leak", LEAKS.values(), ids=LEAKS)
def test_no_program_sees_what_the_answers_of_another_led_to(one, leak):
    honest, guesses, *lines = leak
    test = check(*lines)
    before = run(one, GUESS + guesses, test)
    assert not all(outcome.passed for outcome in before.tests)
    for _ in range(3):
        assert set(statuses(run(one, honest, test))) == {"passed"}
    after = run(one, GUESS + guesses, test)
    assert after.tests == before.tests
    assert set(map(repr, eval(after.output))) <= set(map(repr, eval(before.output)))


# What is foreseen

FORESEEN = {
    "a loop": (check("for x in [2, 3, 4]:", "    assert candidate(x) == x * x"), 3),
    "a loop over a range": (check("for x in range(5):", "    assert candidate(x) == x * x"), 5),
    "a comprehension": (check("assert [candidate(x) for x in range(3)] == [0, 1, 4]"), 3),
    "a table of cases": (check("for x, y in [(2, 4), (3, 9)]:", "    assert candidate(x) == y"), 2),
    "a table outside": (
        "CASES = [(2, 4), (3, 9)]\n" + check("for x, y in CASES:", "    assert candidate(x) == y"),
        2,
    ),
    "a variable": (check("n = 1 + 1", "assert candidate(n) == 4"), 1),
    "several arguments by a star": (check("assert candidate(*[3]) == 9"), 1),
    "a result kept apart": (
        check("for x in [2, 3]:", "    y = candidate(x)", "    assert y == x * x"),
        2,
    ),
}


@pytest.mark.parametrize(("test", "number"), FORESEEN.values(), ids=FORESEEN)
def test_calls_that_depend_on_no_answer_are_made_ahead(one, test, number):
    code = f"{PLAN.replace('print(PLAN)', 'print(len(PLAN))')}\ndef sq(x):\n    return x * x"
    for _ in range(2):
        execution = run(one, code, test)
        assert int(execution.output) == number
        assert set(statuses(execution)) == {"passed"}


def test_a_huge_answer_costs_the_honest_programs_after_it_nothing():
    steps = [line for n in (3, 10, 5) for line in ("n = candidate(n)", f"assert n == {n}")]
    collatz = check("n = 6", *steps)
    honest = "def sq(n):\n    for _ in range(n):\n        pass\n    return 3 * n + 1 if n % 2 else n // 2"
    sandbox = Sandbox(Limits(load_seconds=2, test_seconds=20), workers=1, cache_size=0, seed=22)
    for huge in ("10**12", "10**12 + n"):
        run(sandbox, f"def sq(n):\n    return {huge}", collatz)
        execution = run(sandbox, honest, collatz)
        assert statuses(execution) == ["passed"] * 3
        assert execution.seconds < 15  # a call with the huge number would take all its time
    sandbox.close()


@pytest.mark.parametrize("second", ["candidate(0)", "candidate(len(''))"])
def test_a_second_call_sees_how_many_items_were_made(one, second):
    code = (
        "made = []\ndef items():\n    for i in range(9):\n        made.append(i)\n        yield i\n"
    )
    code += "def sq(x):\n    return items() if x else len(made)"
    test = check("items = candidate(1)", "pair = next(items), next(items)", f"assert {second} == 2")
    assert statuses(run(one, code, test)) == ["passed"]


def test_a_test_may_call_from_several_threads(one):
    test = "from concurrent.futures import ThreadPoolExecutor\n" + check(
        "n = candidate(0)",
        "with ThreadPoolExecutor(4) as pool:",
        "    found = list(pool.map(lambda x: candidate(x + n), range(30)))",
        "assert found == [x * x for x in range(30)]",
    )
    for _ in range(3):
        assert statuses(run(one, "def sq(x):\n    return x * x", test)) == ["passed"]


# Outputs that prompts may show come before a program knows the calls of hidden tests

SPY = """
import marshal, sys

def sq(x):
    frame = sys._getframe()
    while frame is not None:
        for name in ("request", "calls", "data"):
            known = frame.f_locals.get(name)
            known = known["calls"] if isinstance(known, dict) else known
            if isinstance(known, list):
                raise ValueError([marshal.loads(call[1:])[0][0] for call in known])
        frame = frame.f_back
    return x * x
"""
"""It says in an exception which arguments it was told."""


@pytest.mark.parametrize("shown", [1, 2, 3])
def test_what_prompts_may_show_comes_before_the_program_knows_the_rest(one, shown):
    loop = ("for x in [5, 6]:", "    assert candidate(x) == x * x")
    hidden = ("assert candidate(4711) == 0", "assert candidate(8080) == 0")
    test = check("assert candidate(4) == 16", *loop, *hidden)
    message = one.run(program(SPY), instrument(test, "sq")).tests[0].message
    assert "4711" in message and "8080" in message
    tests = replace(instrument(test, "sq"), shown=shown)
    for _ in range(2):
        first, *rest = one.run(program(SPY), tests).tests
        assert ("4711" in str([first, *rest[: shown - 1]])) == (shown == 3)
        assert "8080" not in str([first, *rest[: shown - 1]])
        assert "8080" in rest[-1].message


@pytest.mark.parametrize("shown", [1, 2, 9])
def test_the_order_of_the_calls_changes_no_outcome(one, shown):
    test = check(*(f"assert candidate({x}) == {x * x}" for x in range(1, 5)))
    for code in ("def sq(x):\n    return x * x", *WRONG.values()):
        outcomes = one.run(program(code), instrument(test, "sq")).tests
        tests = replace(instrument(test, "sq"), shown=shown)
        assert one.run(program(code), tests).tests == outcomes


def test_no_prompt_tells_inputs_of_hidden_tests(tmp_path):
    test = check("assert candidate(1) == 1", "assert candidate(4711) == 4711**2")
    row = {"task_id": "t/0", "prompt": 'def sq(x):\n    """square"""\n', "entry_point": "sq"}
    (tmp_path / "own.json").write_text(json.dumps([{**row, "test": test}]))
    for number in (1, 0):
        env = llm_decpomdp.make(
            "humaneval-v0", source=str(tmp_path / "own.json"), num_agents=1, sandbox_slice=number
        )
        env.reset(seed=0)
        prompt = env.step({"main_0": SPY})[0]["main_0"]
        assert "ValueError: [1" in prompt and ("4711" in prompt) == (number == 0)
