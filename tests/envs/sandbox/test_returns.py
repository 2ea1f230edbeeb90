"""Values and exceptions of a program's function, as a test sees them on its side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from llm_decpomdp.envs.sandbox import Limits, Sandbox, instrument
from tests.attacks.entries import ENTRIES
from tests.envs.sandboxed import run, statuses
from tests.support.programs import check

RIGHT = {name: entry for name, entry in ENTRIES.items() if entry.category == "benign"}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox(Limits(load_seconds=5, test_seconds=5), workers=1, cache_size=0)
    yield sandbox
    sandbox.close()


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("split", [True, False])
def test_a_right_program_passes_whatever_it_returns(name, split, sandbox):
    entry = RIGHT[name]
    tests = instrument(entry.test, entry.entry_point, split)
    execution = sandbox.run(entry.program(entry.completions["main"]), tests)
    assert execution.tests and all(test.passed for test in execution.tests), execution


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
