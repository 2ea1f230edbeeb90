"""A function divided in two means the same as before."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from llm_decpomdp.envs.source_code.function_extraction import divide_function
from llm_decpomdp.envs.source_code.variables import variable_flow

SUM = """
import math

LIMIT = 3

def rounded(x):
    return math.floor(x)

def f(items, step=1):
    '''Sum something.'''
    total, seen = 0, []
    for place, item in enumerate(items):
        if item % 2 == 0:
            total += rounded(item / 2) * step
            if place > LIMIT:
                break
        else:
            seen.append(item + place)
            continue
        last = item
        total -= last * step
    return total + len(seen), seen
"""
RETURNS = """
def f(text):
    if not text:
        return None
    for letter in text:
        if letter.isupper() and letter != 'X':
            return letter + text[0]
    words = [word.strip() for word in text.split(',') if len(word) > 1 and word[0] != 'q']
    return sorted(words, key=lambda word: (-len(word), word))
"""
STATES = """
def f(n):
    low, high, steps = 0, n, {}
    while low < high:
        middle = (low + high) // 2
        try:
            found = 10 // middle
        except ZeroDivisionError as error:
            found = len(str(error)) * 0
        else:
            found += 1
        steps[middle] = found
        if middle * middle < n:
            low = middle + 1
        else:
            high = middle
    def twice(x):
        return x * 2 + low
    return twice(low), [twice(x) + high for x in range(low) if x * x > 2], steps
"""
CASES = {
    SUM: [((), 2), ((1, 2, 3, 4),), ((2, 4, 6, 8, 10, 12, 3), 2), ((5,),)],
    RETURNS: [("",), ("abC",), ("X, bb,qq, ccc",), ("one,two,x",)],
    STATES: [(0,), (1,), (5,), (30,)],
}


def run(code: str, argument: tuple[Any, ...]) -> str:
    program: dict[str, Any] = {}
    exec(code, program)
    return repr(program["f"](*argument))


@pytest.mark.parametrize("code", CASES, ids=["sum", "returns", "states"])
def test_every_extraction_means_the_same(code: str) -> None:
    extractions = divide_function(code, "f")
    assert len(extractions) > 5
    for extraction in extractions:
        program = f"{extraction.helper}\n\n{extraction.main}"
        for argument in CASES[code]:
            assert run(program, argument) == run(code, argument), program
        assert "def aux(" in extraction.helper and "aux(" in extraction.main
        assert 0 < extraction.balance <= 1
    balances = [extraction.balance for extraction in extractions]
    assert balances == sorted(balances, reverse=True)


def kinds(code: str) -> set[str]:
    return {extraction.kind for extraction in divide_function(code, "f")}


def test_bodies_of_loops_branches_expressions_and_statements_are_extracted() -> None:
    assert kinds(SUM) == {"statements", "expression"}  # bodies with `break` and `continue` stay
    square = "x = x * x + 1"
    assert kinds(f"def f(x):\n    if x > 2:\n        {square}\n    return x - 1") == {
        *("branch", "expression", "statements"),
    }
    assert kinds(f"def f(xs):\n    for x in xs:\n        {square}\n    return x") == {
        *("loop body", "expression"),
    }


def test_variables_become_parameters_and_results() -> None:
    body = "y = x * n\n{0}s += y % 7\n{0}t -= y"
    code = f"""def f(xs, n):
    s = t = 0
    for x in xs:
        {body.format(" " * 8)}
    return (s, t)"""
    (extraction,) = [d for d in divide_function(code, "f") if d.kind == "loop body"]
    assert (
        extraction.helper == f"def aux(n, s, t, x):\n    {body.format(' ' * 4)}\n    return (s, t)"
    )
    assert "for x in xs:\n        s, t = aux(n, s, t, x)\n" in extraction.main


def test_a_function_that_it_calls_becomes_the_helper() -> None:
    code = """
def half(x):
    return half(x - 2) + 1 if x > 1 else 0

def f(xs):
    def odd(x, by=2):
        return x % by == 1
    return [half(x) * 2 for x in xs if odd(x)]
"""
    found = {e.helper: e.main for e in divide_function(code, "f") if e.kind == "function"}
    assert found == {
        "def aux(x):\n    return aux(x - 2) + 1 if x > 1 else 0": "def f(xs):\n\n    def odd(x, by=2):\n        "
        "return x % by == 1\n    return [aux(x) * 2 for x in xs if odd(x)]",
        "def aux(x, by=2):\n    return x % by == 1": "def half(x):\n    return half(x - 2) + 1 if x > 1 else 0\n\n"
        "def f(xs):\n    return [half(x) * 2 for x in xs if aux(x)]",
    }
    for helper, main in found.items():
        assert run(f"{helper}\n\n{main}", ([1, 2, 5, 7],)) == run(code, ([1, 2, 5, 7],))
    # A closure, a generator, and a function that the prompt has.
    for inner in ("return x + len(xs) * 2", "yield x * x + 1"):
        assert "function" not in kinds(
            f"def f(xs):\n    def g(x):\n        {inner}\n    return [g(x) for x in xs]"
        )
    preamble = code.partition("\n\ndef f")[0]
    assert not any("- 2" in e.helper for e in divide_function(code, "f", preamble=preamble))


def test_a_helper_that_only_counts_comes_last() -> None:
    code = "def f(xs):\n    n = 0\n    for i in range(len(xs) - 1):\n        n += xs[i] * i % 7\n    return n"
    *others, last = divide_function(code, "f")
    assert "return range(len(xs) - 1)" in last.helper and last.balance > others[-1].balance


def test_imports_of_the_function_are_no_parameters() -> None:
    code = "def f(x):\n    import math\n    y = math.floor(x / 3)\n    return y + math.ceil(x / y)"
    helpers = {extraction.helper for extraction in divide_function(code, "f")}
    assert "import math\n\ndef aux(x, y):\n    return math.ceil(x / y)" in helpers
    assert not any("(math" in helper.partition(":")[0] for helper in helpers)


def test_each_part_has_the_definitions_that_it_needs_and_the_prompt_lacks() -> None:
    (extraction, *_) = [d for d in divide_function(SUM, "f") if "rounded" in d.helper]
    assert extraction.helper.startswith("import math\n\ndef rounded(x):")
    assert "Sum something" not in extraction.main
    preamble = "import math\n\ndef rounded(x):\n    return math.floor(x)"
    for extraction in divide_function(SUM, "f", preamble=preamble):
        assert "import" not in extraction.helper + extraction.main


@pytest.mark.parametrize(
    "code",
    [
        "def f(xs):\n    for x in xs:\n        yield x * x + 1",
        "async def f(x):\n    return x * x + g(x * 2) - 1",
        "def f(x):\n    global y\n    y = x * x + 1\n    return y - 2 * x",
        "def f(x):\n    return 1 if x < 2 else x * f(x - 1)",  # a helper would call `f`
        "def f(x):\n    aux = x * x + 1\n    return aux - 2 * x",
        "def f(x):\n    return -len(locals())",
        "def f():\n    return 2 * 3 + 4 * 5",  # nothing to pass
        "f = lambda x: x * x + 2 * x",
        "def g(x):\n    return x * x + 2 * x",
        "def f(x:",
    ],
)
def test_what_cannot_be_divided_is_left(code: str) -> None:
    assert divide_function(code, "f") == []


def test_a_loop_is_never_left_from_the_helper_and_a_variable_may_not_be_missing() -> None:
    code = """
def f(xs):
    for x in xs:
        if x * x > 9:
            best = x + 1
            break
        if x + x < 0:
            return x - 1
    return best * 2 + len(xs) * best
"""
    for extraction in divide_function(code, "f"):
        assert "break" not in extraction.helper
        # Whether `best` is assigned depends on the loop.
        assert "best" not in extraction.helper.partition("\n")[0]


def flow(code: str) -> tuple[set[str], set[str], bool]:
    result = variable_flow(ast.parse(code).body)
    return set(result.reads), set(result.sure), result.ends


@pytest.mark.parametrize(
    ("code", "reads", "sure", "ends"),
    [
        ("a = b\nc = a", {"b"}, {"a", "c"}, False),
        ("if a:\n    b = 1\nelse:\n    b = c", {"a", "c"}, {"b"}, False),
        ("if a:\n    b = 1\nd = b", {"a", "b"}, {"d"}, False),
        ("for a in b:\n    c = a\nd = c", {"b", "c"}, {"d"}, False),
        ("while a:\n    b += 1", {"a", "b"}, set(), False),
        ("if a:\n    raise b\nelse:\n    c = 1\nd = c", {"a", "b"}, {"c", "d"}, False),
        ("if a:\n    return b\nreturn 2\nc", {"a", "b"}, set(), True),
        ("a = [b for b in c if b > d]\nx: 0", {"c", "d"}, {"a"}, False),
        ("a = lambda b, c=d: b + e", {"d", "e"}, {"a"}, False),
        ("try:\n    a = 1\nexcept E as e:\n    b = e", {"E"}, set(), False),
        (
            "match a:\n    case [b]:\n        c = b\n    case _:\n        c = d",
            {"a", "b", "d"},
            set(),
            False,
        ),
        ("with a as b:\n    c = b", {"a"}, {"b", "c"}, False),
        ("def g(a):\n    b = a\n    return b + c", {"c"}, {"g"}, False),
    ],
)
def test_the_flow_of_variables(code: str, reads: set[str], sure: set[str], ends: bool) -> None:
    assert flow(code) == (reads, sure, ends)
