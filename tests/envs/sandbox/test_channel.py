"""Programs that tamper with how they answer: nothing raises in us, hangs us or passes for another answer."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from llm_decpomdp.envs.sandbox import Execution, Limits, Program, Sandbox, instrument
from tests.envs.sandboxed import SHORT, run
from tests.support.programs import SQUARES, check

WRITE = """
import os
def forge(*texts):
    data = b"".join(len(text).to_bytes(4, "big") + text for text in texts)
    for descriptor in range(3, 20):
        try:
            os.write(descriptor, data)
        except OSError:
            pass
"""
# An integer whose decimal digits Python refuses to write.
HUGE = {"int": "0x" + "f" * 6000}
ERROR = ["ValueError", "text", "main_0", 3, "", "ValueError", ["text"]]
MESSAGES: dict[str, Any] = {
    "no list": 5,
    "empty": [],
    "too short": ["value", 4],
    "too long": ["value", 4, None, [], "", 0],
    "unknown kind": ["verdict", "passed", None, [], ""],
    "kind of another type": [[1], 4, None, [], ""],
    "object": {"kind": "value"},
    "unknown tag": ["value", {"code": "x"}, None, [], ""],
    "items": ["items", [[1], None], None, [], ""],
    "callback": ["callback", [0, [[1], []]], None, [], ""],
    "callback nonsense": ["callback", 7, None, [], ""],
    "error of no form": ["error", 7, None, [], ""],
    "error of wrong types": ["error", [1, 2, 3, "x", 5, {}, 0], None, [], ""],
    "error with a long text": ["error", ["E", "x" * 10**5, "", 0, ""], None, [], ""],
    "error with a huge line": ["error", [*ERROR[:3], HUGE, *ERROR[4:]], None, [], ""],
    "error with a status": ["error", [*ERROR[:4], "passed", *ERROR[5:]], None, [], ""],
    "error with a bad class": ["error", [*ERROR[:5], "__import__", ERROR[6]], None, [], ""],
    "error that ends loops": ["error", ["StopIteration", "", "", 0, "", "StopIteration", []], None, [], ""],
    "error with bad arguments": ["error", [*ERROR[:5], "ExceptionGroup", ["a", []]], None, [], ""],
    "output that is a number": ["value", 0, None, [], HUGE],
    "changed arguments of no form": ["value", 0, 7, [], ""],
    "changed arguments of another type": ["value", 0, [[{"set": [1]}], [["x", 1]]], [], ""],
    "function": ["value", {"handle": ["function", 10**9, "f"]}, None, [], ""],
    "handle of no form": ["value", {"handle": [1]}, None, [], ""],
    "numbered containers inside of others": ["value", {"last": [{"new": [{"new": []}]}]}, None, [], ""],
    "numbered value in a container": ["value", {"last": [{"new": {"last": [{"new": []}]}}] * 2}, None, [], ""],
    "numbered container alone": ["value", {"new": []}, None, [], ""],
    "tuple of an iterator": ["value", {"tuple": {"handle": ["iterator", 0, "f"]}}, None, [], ""],
}  # fmt: skip
RAW = [b"", b"garbage", b"\xff\xfe", b"[" * 5000, b"x" * 2**20, b'{"a": ' * 5000, b"1" * 5000]


def forged(*messages: bytes, at_load: bool, test: str = SQUARES) -> Execution:
    call = f"forge(*{messages!r})"
    code = f"{WRITE}{call if at_load else ''}\ndef sq(x):\n    {'pass' if at_load else call}\n    return 0"
    return run(code, test)


def is_bad_but_sound(execution: Execution) -> bool:
    """True if no test passes, and all texts about them can be kept in a file."""
    texts = [[o.message, o.origin, o.line] for o in execution.tests]
    json.dumps(texts, allow_nan=False, ensure_ascii=False).encode()
    return not any(outcome.passed for outcome in execution.tests)


@pytest.mark.parametrize("at_load", [True, False], ids=["while loading", "in a test"])
@pytest.mark.parametrize("text", RAW, ids=[repr(text[:20]) for text in RAW])
def test_nonsense_among_the_answers_neither_raises_nor_hangs(text, at_load):
    assert is_bad_but_sound(forged(text, at_load=at_load))


@pytest.mark.parametrize("at_load", [True, False], ids=["while loading", "in a test"])
@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_messages_that_are_no_answers_neither_raise_nor_hang(message, at_load):
    assert is_bad_but_sound(forged(json.dumps(message).encode(), at_load=at_load))


@pytest.mark.parametrize(
    ("origin", "line", "place"),
    [
        ("main_0", 3, ("main_0", 3)),
        ("main_0", 2**39, ("", 0)),
        ("aux_0", 3, ("", 0)),
        ("", 2**39, ("", 0)),
    ],
)
def test_a_line_that_no_code_has_is_not_passed_on(origin, line, place):
    message = ["error", [*ERROR[:2], origin, line, *ERROR[4:]], None, [], ""]
    outcome = forged(json.dumps(message).encode(), at_load=False).tests[0]
    assert (outcome.origin, outcome.line) == place


COUNTS: dict[str, Any] = {
    "huge": [HUGE],
    "infinite": [float("inf")],
    "negative": [-1],
    "no number": ["x"],
    "of more helpers than there are": [0, 0],
    "no list": 0,
}


def with_count(count: Any) -> Execution:
    """A program that answers 4 with this count of calls of its helper `f`."""
    text = json.dumps(["value", 4, None, count, ""]).encode()
    code = f"{WRITE}def f():\n    return 0\ndef sq(x):\n    forge({text!r})\n    return f()"
    program = Program((("main_0", code),), "sq", helpers=(("main_0", "f"),))
    return Sandbox(SHORT, cache_size=0).run(program, instrument(SQUARES, "sq"))


def test_a_count_of_helper_calls_that_is_none_is_no_answer():
    assert with_count([7]).tests[0].passed and with_count([7]).helper_calls[0] >= 7
    for part, count in COUNTS.items():
        assert is_bad_but_sound(with_count(count)), part


@pytest.mark.parametrize("header", [b"\xff\xff\xff\xff", b"\x00\x90\x00\x00", b"\x00\x00\x01"])
def test_a_message_that_is_too_long_or_never_ends_fails(header):
    code = f"{WRITE}def sq(x):\n    for n in range(3, 20):\n        try:\n            os.write(n, {header!r})\n"
    code += "        except OSError:\n            pass\n    return x * x"
    assert is_bad_but_sound(run(code, limits=replace(SHORT, test_seconds=0.2, wall_factor=2)))


def test_messages_about_tests_mean_nothing():
    passed = [json.dumps(["test", [test, None], None, [], ""]).encode() for test in (0, 1)]
    message = json.dumps(["done", [[0, 1], [1, 1]], None, [], ""]).encode()
    assert is_bad_but_sound(forged(*passed, message, at_load=False))


REPORTS: dict[str, Any] = {
    "unknown test": ["test", [9, None], None, [], ""],
    "negative test": ["test", [-1, None], None, [], ""],
    "test of no form": ["test", 5, None, [], ""],
    "failure of no form": ["test", [0, "bad"], None, [], ""],
    "stage that is over": ["stage", [0, None], None, [], ""],
    "huge stage": ["stage", [10**30, None], None, [], ""],
    "done with nonsense": ["done", [[1], "x", [None, None]], None, [], ""],
    "done with a huge count": ["done", [[0, HUGE]], None, [], ""],
    "done with no list": ["done", 7, None, [], ""],
}


@pytest.mark.parametrize("message", REPORTS.values(), ids=REPORTS)
def test_nonsense_instead_of_reports_neither_raises_nor_hangs(message):
    """Reports can be forged if tests run inside, but they do no harm."""
    text = json.dumps(message).encode()
    code = f"{WRITE}def sq(x):\n    forge({text!r})\n    return 0"
    execution = run(code, split=False)
    assert {outcome.status for outcome in execution.tests} <= {"failed", "crashed", "not_run"}


def test_a_program_cannot_buy_time_with_answers_that_nobody_asked_for():
    callback = json.dumps(["callback", [0, [[1], []]], None, [], ""]).encode()
    code = f"{WRITE}import time\ndef sq(x):\n    while True:\n        time.sleep(0.2)\n        forge({callback!r})"
    begin = time.monotonic()
    assert is_bad_but_sound(run(code, limits=replace(SHORT, program_seconds=2)))
    assert time.monotonic() - begin < 40  # without a limit it never ends


CALLBACK = json.dumps(["callback", [0, [[1], []]], None, [], ""]).encode()
ANSWER = json.dumps(["value", 4, None, [], ""]).encode()
DEAF = {
    "to replies": ("assert candidate(2) == 5", f"while True:\n        forge({CALLBACK!r})"),
    "to arguments": (
        "assert [candidate('x' * 10**7) for _ in range(2)] == 5",
        f"forge({ANSWER!r})\n    time.sleep(999)",
    ),
}
"""A test, and a program that does not read what it is sent."""


@pytest.mark.parametrize(("line", "body"), DEAF.values(), ids=DEAF)
def test_a_program_that_does_not_listen_ends_by_its_limits(line, body, monkeypatch):
    monkeypatch.setattr("llm_decpomdp.envs.sandbox.worker_process.GRACE_SECONDS", 2.0)
    limits = Limits(load_seconds=1, test_seconds=0.3, program_seconds=1, wall_factor=1)
    code = f"{WRITE}import time\ndef sq(x):\n    {body}"
    assert is_bad_but_sound(run(code, check(line), limits, workers=1))


@pytest.mark.parametrize("at_load", [True, False], ids=["while loading", "in a test"])
def test_closing_the_channel_ends_the_program(at_load):
    close = "os.closerange(3, 50)\n{0}time.sleep(100)"
    called = "def sq(x):\n    " + close.format("    ")
    code = "import os, time\n" + (close.format("") if at_load else called)
    begin = time.monotonic()
    assert {outcome.status for outcome in run(code).tests} == {"crashed"}
    assert time.monotonic() - begin < 60


def test_large_answers_are_no_failure_of_the_sandbox_or_of_the_next_program():
    """Each is allowed by itself; together they would not fit into the evaluator's memory."""
    test = check(*(f"assert candidate({x}) == 1" for x in range(66)))
    code = "def sq(x):\n    return 'a' * {} + chr(0x1F600)"
    assert is_bad_but_sound(run(code.format(7_900_000), test, Limits(max_timeouts=1), workers=1))
    honest = check("assert len(candidate(1)) == 5_000_001")
    for _ in range(6):
        (outcome,) = run(code.format(5_000_000), honest, workers=1).tests
        assert outcome.passed, outcome


EXCEPTIONS = [
    "class E(Exception):\n    def __str__(self):\n        raise SystemExit",
    "class S(str):\n    def __getitem__(self, i):\n        return object()\n"
    "class E(Exception):\n    def __str__(self):\n        return S('a')",
    "class M(type):\n    @property\n    def __name__(cls):\n        raise KeyError\n"
    "class E(Exception, metaclass=M):\n    pass",
    "class E(Exception):\n    __traceback__ = property(lambda self: 1 / 0)",
    "class E(Exception):\n    __traceback__ = 5",
    "class E(Exception):\n    args = property(lambda self: 1 / 0)",
    "class E(Exception):\n    def __init__(self):\n        self.args = (self, [self])",
    "class E(BaseException):\n    pass",
    "class M(type):\n    def mro(cls):\n        return [cls, *super().mro()[1:]]\n"
    "class E(Exception, metaclass=M):\n    __module__ = 5",
]


@pytest.mark.parametrize("error", EXCEPTIONS)
@pytest.mark.parametrize("at_load", [True, False], ids=["while loading", "in a test"])
def test_hostile_exceptions_are_failures_like_others(error, at_load):
    code = f"{error}\nraise E()" if at_load else f"{error}\ndef sq(x):\n    raise E()"
    execution = run(code, limits=SHORT)
    assert {outcome.status for outcome in execution.tests} <= {"error", "crashed"}
