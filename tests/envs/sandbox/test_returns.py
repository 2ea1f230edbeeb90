"""What a program's function may return or raise, and how a test sees it on its side."""

from __future__ import annotations

import pytest

from tests.envs.sandboxed import check, run, statuses

PASSING = {
    "list of an iterator": ("return iter(range(x))", "list(candidate(3)) == [0, 1, 2]"),
    "long generator": ("yield from range(x)", "sum(candidate(5000)) == sum(range(5000))"),
    "endless generator": (
        "while True:\n        yield x",
        "[v for v, _ in zip(candidate(3), range(70))] == [3] * 70",
    ),
    "two iterators in turn": (
        "return map(abs, [x, -x])",
        "(lambda a, b: [next(a), next(b), next(a)])(candidate(1), candidate(2)) == [1, 2, 1]",
    ),
    "generator that ends": ("return\n    yield", "next(candidate(1), 'over') == 'over'"),
    "function": ("return lambda y: x + y", "candidate(2)(3) == 5"),
    "function of functions": ("return lambda: lambda: x", "candidate(2)()() == 2"),
    "functions in a list": ("return [lambda: x, lambda: -x]", "[f() for f in candidate(2)] == [2, -2]"),
    "callback": ("return [x(v) for v in (1, 2)]", "candidate(lambda v: v + 5) == [6, 7]"),
    "callback as a key": ("return sorted([3, -4, 1], key=x)", "candidate(abs) == [1, 3, -4]"),
    "callback with keywords": ("return x(a=1, b=[2])", "candidate(lambda a, b: (a, b)) == (1, [2])"),
    "callback that raises": (
        "try:\n        return x(0)\n    except ZeroDivisionError:\n        return 'caught'",
        "candidate(lambda v: 1 / v) == 'caught'",
    ),
    "coroutine": ("async def f():\n        return x * x\n    return f()", "asyncio.run(candidate(3)) == 9"),
    "named tuple": ("return collections.namedtuple('P', 'a b')(x, 2)", "candidate(1) == (1, 2)"),
    "counter": ("return collections.Counter('aab')", "candidate(1) == {'a': 2, 'b': 1}"),
    "default dict": ("return collections.defaultdict(int, {1: x})", "candidate(1) == {1: 1}"),
    "enum of integers": ("return enum.IntEnum('E', 'a b')(x)", "candidate(2) == 2"),
    "not a number": ("return float('nan')", "candidate(1) != candidate(1)"),
    "infinity": ("return [float('inf'), -0.0]", "str(candidate(1)) == '[inf, -0.0]'"),
    "huge integer": ("return x ** 20000", "candidate(3) == 3 ** 20000"),
    "lone surrogate": ("return chr(0xD800 + x)", "candidate(1) == '\\ud801'"),
    "every type": (
        "return x",
        "(lambda v: candidate(v) == v)([None, True, 1, 2.5, 1j, 's', b'b', bytearray(b'c'), (1,), {1: (2,)},"
        " {3}, frozenset({4}), range(5), ..., fractions.Fraction(1, 3), decimal.Decimal('0.10'),"
        " collections.deque([1], 3)])",
    ),
}  # fmt: skip
FAILING = {
    "object": ("class C:\n        __eq__ = lambda *_: True\n    return C()", "candidate(4) == 4"),
    "object in a list": (
        "class C:\n        __eq__ = lambda *_: True\n    return [C()]",
        "candidate(4) == [4]",
    ),
    "subclass that lies": (
        "class C(int):\n        __eq__ = lambda *_: True\n    return C(5)",
        "candidate(4) == 4",
    ),
    "list that lies": (
        "class C(list):\n        __iter__ = lambda self: iter([4])\n    return C()",
        "list(candidate(4)) == [4]",
    ),
    "type": ("return float", "candidate(4) == int"),
    "list that contains itself": ("y = []\n    y.append(y)\n    return y", "candidate(4) == []"),
    "truth without a value": ("class C: pass\n    return C()", "candidate(1) is True"),
    "coroutine instead of a value": (
        "async def f(): return 4\n    return f()",
        "candidate(1) == 4",
    ),
    "one for true": ("return 1", "candidate(1) is True"),
}
IMPORTS = "import asyncio, collections, decimal, enum, fractions\n"


@pytest.mark.parametrize(("body", "claim"), PASSING.values(), ids=PASSING)
@pytest.mark.parametrize("split", [True, False])
def test_a_value_is_what_it_is_on_the_other_side(body, claim, split):
    (outcome,) = run(
        f"{IMPORTS}def sq(x):\n    {body}", IMPORTS + check(f"assert {claim}"), split=split
    ).tests
    assert outcome.passed, outcome


@pytest.mark.parametrize(("body", "claim"), FAILING.values(), ids=FAILING)
def test_a_value_that_only_pretends_does_not_pass(body, claim):
    (outcome,) = run(f"{IMPORTS}def sq(x):\n    {body}", IMPORTS + check(f"assert {claim}")).tests
    assert outcome.status in ("failed", "error"), outcome


def expects(error: str, then: str = "pass") -> str:
    """A test that passes if the call raises `error`."""
    return check(
        "try:",
        "    candidate(2)",
        f"except {error} as error:",
        f"    {then}",
        "else:",
        "    assert False",
    )


@pytest.mark.parametrize(
    ("raised", "expected", "status"),
    [
        ("ValueError('a', 3)", "ValueError", "passed"),
        ("KeyError('a')", "LookupError", "passed"),
        ("TypeError()", "ValueError", "error"),
        ("UnicodeDecodeError('utf-8', b'a', 0, 1, 'why')", "UnicodeError", "passed"),
        ("type('Own', (ValueError,), {})('a')", "ValueError", "passed"),
        ("type('Own', (Exception,), {})('a')", "Exception", "passed"),
        ("type('Own', (Exception,), {})('a')", "ValueError", "error"),
        ("SystemExit", "SystemExit", "error"),
    ],
)  # fmt: skip
def test_a_test_sees_the_builtin_class_of_an_exception(raised, expected, status):
    assert statuses(f"def sq(x):\n    raise {raised}", expects(expected)) == [status]


def test_a_test_sees_the_arguments_of_an_exception():
    test = expects("ValueError", "assert error.args == ('a', [3])")
    assert statuses("def sq(x):\n    raise ValueError('a', [3])", test) == ["passed", "passed"]
    assert statuses("def sq(x):\n    raise ValueError('a')", test) == ["failed", "passed"]


def test_an_exception_cannot_end_a_loop_of_the_test_early():
    test = check("for x in map(candidate, (1, 2)):", "    assert x == 1")
    (outcome,) = run(
        "def sq(x):\n    if x == 2:\n        raise StopIteration\n    return x", test
    ).tests
    assert (outcome.status, outcome.message) == ("error", "StopIteration")


@pytest.mark.parametrize("split", [True, False])
def test_an_iterator_that_hangs_or_raises_fails_its_test_only(split):
    test = check(*(f"assert sum(candidate({x})) == 0" for x in range(4)))
    code = (
        "def sq(x):\n    yield 0\n    while x == 1: pass\n    if x == 2:\n"
        "        raise KeyError(x)\n    yield 0"
    )
    assert statuses(code, test, split=split) == ["passed", "timeout", "error", "passed"]
