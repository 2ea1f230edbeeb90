"""Answers of a process that speaks for itself, and rare ones of honest programs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest

from llm_decpomdp.envs.sandbox import Execution, Limits, Program, Sandbox, instrument
from llm_decpomdp.envs.sandbox.worker.confinement import landlock
from tests.envs.sandboxed import CHANNEL, end_within, program, run, value_of, workers_of
from tests.support.programs import SQUARE, SQUARES, check

SPEAKS = (
    CHANNEL
    + """
def sq(x):
    return 0

send("loaded", None, None, [], "")
"""
)
"""A program that answers in place of the code around it."""
ITERATOR = {"handle": ["iterator", 0, "x"]}
LINUX = sys.platform == "linux"
folders = pytest.mark.skipif(not LINUX or not landlock.abi(), reason="no private folders here")


@pytest.fixture(scope="module")
def own() -> Iterator[Sandbox]:
    """A sandbox with a single worker that no other module uses."""
    sandbox = Sandbox(Limits(load_seconds=2, test_seconds=2), workers=1, cache_size=0, seed=41)
    yield sandbox
    sandbox.close()


def graded(sandbox: Sandbox, code: str, test: str = SQUARES) -> Execution:
    return sandbox.run(program(code), instrument(test, "sq"))


def passes(sandbox: Sandbox) -> bool:
    return all(test.passed for test in graded(sandbox, SQUARE).tests)


# Exceptions


def told(kind: str, arguments: list[object], text: str = "") -> str:
    failure = [kind, text, "", 0, "", kind, arguments]
    return f"{SPEAKS}\nfor _ in range(2):\n    send('error', {failure!r}, None, [], '')\n"


@pytest.mark.parametrize(
    "kind", ["UnicodeDecodeError", "UnicodeEncodeError", "UnicodeTranslateError"]
)
@pytest.mark.parametrize("text", [{"bytes": "00"}, "a"])
def test_an_exception_shows_no_memory_of_the_process_that_judges(own, kind, text):
    arguments: list[object] = ["utf-8", text, -(10**15), 1 - 10**15, "r"]
    arguments = arguments[kind == "UnicodeTranslateError" :]
    asks = check(
        "try:", "    candidate(2)", "except ValueError as e:", "    assert str(e) == 'mine'"
    )
    assert graded(own, told(kind, arguments, "mine"), asks).tests[0].passed
    assert passes(own)


def test_a_syntax_error_does_not_take_gigabytes(own):
    raises = "e = SyntaxError('x'); e.args = ('m', range(42 * 10**6)); raise e"
    test = check(
        "import resource",
        "def pages():",
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt",
        "before = pages()",
        "try:",
        "    candidate(2)",
        "except Exception:",
        "    assert pages() - before < 50_000",
    )
    assert graded(own, f"def sq(x):\n    {raises}", test).tests[0].passed


# Values


@pytest.mark.parametrize(
    "value",
    [
        {"tuple": ITERATOR},
        {"dict": [ITERATOR]},
        {"set": ITERATOR},
        {"deque": [ITERATOR, None]},
        {"complex": ITERATOR},
        {"tuple": {"range": [0, 5 * 10**7, 1]}},
        {"Fraction": ["1e999999999", None]},
    ],
)
def test_reading_a_value_asks_the_program_for_nothing(own, value):
    raises = ["RuntimeError", "boom", "", 0, "", "RuntimeError", []]
    code = (
        f"{SPEAKS}\nsend('value', {value!r}, None, [], '')\n"
        f"send('error', {raises!r}, None, [], '')\ntime.sleep(0.3)\n"
    )
    outcomes = graded(own, code).tests
    assert {test.status for test in outcomes} == {"crashed"}
    assert passes(own)


@pytest.mark.parametrize(
    "content",
    [
        ITERATOR,
        [0, ITERATOR],
        [-1, [[], []]],
        [10**6, [[], []]],
        [0, [ITERATOR, []]],
        [0, [[], [ITERATOR]]],
    ],
)
def test_a_callback_has_a_number_and_arguments(own, content):
    takes = check("assert candidate(lambda x: 7) == 0")
    code = f"{SPEAKS}\nsend('callback', {content!r}, None, [], '')\nprint(os.read(SOCKET, 65536)[:0])\n"
    assert not graded(own, code, takes).tests[0].passed
    assert passes(own)


@pytest.mark.parametrize(
    "changed", [ITERATOR, [ITERATOR, []], [[[]], ITERATOR], [[[]], [ITERATOR]]]
)
def test_changed_arguments_are_a_list_and_pairs(own, changed):
    takes = check("assert candidate([1]) == 4")
    outcomes = graded(own, f"{SPEAKS}\nsend('value', 4, {changed!r}, [], '')\n", takes).tests
    assert [test.status for test in outcomes] == ["crashed"]
    assert passes(own)


def test_what_is_too_large_to_compare_is_called_that():
    nested = "def sq(x):\n    return {((i, j),) for i in range(150) for j in range(150)}"
    (outcome,) = run(nested, check("assert len(candidate(2)) == 22500")).tests
    assert outcome.status == "error" and "too large to compare" in outcome.message


# The process that judges


def test_values_that_crash_the_interpreter_of_the_test_are_a_verdict(own):
    # The test does to its process what a hole in the interpreter would.
    ends = check("import ctypes", "x = candidate(2)", "x or ctypes.string_at(0)", "assert x == 4")
    jobs = [
        (program(code), instrument(ends, "sq")) for code in ("def sq(x):\n    return 0", SQUARE)
    ]
    wrong, right = own.run_batch(jobs)
    assert [test.status for test in wrong.tests] == ["crashed"] and right.tests[0].passed
    assert "SIGSEGV" in wrong.tests[0].message


@pytest.mark.skipif(not LINUX, reason="Linux's processes")
def test_a_zygote_that_a_program_has_stopped_costs_only_time():
    sandbox = Sandbox(workers=1, without=("namespaces", "seccomp"), cache_size=0)
    stops = f"import os\nos.kill(os.getppid(), {int(signal.SIGSTOP)})\n{SQUARE}"
    graded(sandbox, stops)
    workers = workers_of(os.getpid())
    assert [passes(sandbox) for _ in range(3)] == [True] * 3
    workers |= workers_of(os.getpid())
    sandbox.close()
    alive = {worker for worker in workers if worker in workers_of(os.getpid())}
    assert end_within(20, workers - alive)


# What a program leaves, and finds


OTHERS = """
import gc, os, sys
here = os.getcwd()
found = []
for number in range(3, 64):
    try:
        if os.path.isdir(f"/proc/self/fd/{number}"):
            found.append(number)
    except OSError:
        pass
frame = sys._getframe()
while frame:
    found += [p for p in getattr(frame.f_locals.get("self"), "folders", []) if type(p) is str and p != here]
    frame = frame.f_back
for path in ("/proc/self/mountinfo", "/proc/mounts", os.path.dirname(here)):
    try:
        found.append(os.listdir(path) if os.path.isdir(path) else open(path).read())
    except OSError:
        pass
"""


@folders
def test_a_program_finds_no_folder_but_its_own():
    if run("open('a', 'w')\n" + SQUARE).error is not None:
        pytest.skip("no private folders here")
    assert value_of("(found, os.listdir('.'))", OTHERS) == "([], [])"


def test_a_program_sees_no_arguments_of_ours():
    assert value_of("(sys.argv, sys.orig_argv)", "import sys") == "([''], [''])"
    assert value_of("argparse.ArgumentParser().parse_args()", "import argparse") == "Namespace()"


def test_a_program_may_replace_both_of_its_streams():
    code = (
        "import io, sys\n"
        "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8', write_through=True)\n"
        "sys.stderr = io.TextIOWrapper(sys.stderr.buffer, encoding='utf-8', write_through=True)\n"
        f"print('hello')\n{SQUARE}\nprint('there')"
    )
    execution = run(code)
    assert [test.status for test in execution.tests] == ["passed", "passed"]
    assert execution.output == "hello\nthere\n"


# Helpers


@pytest.mark.parametrize(
    ("helper", "body"),
    [
        ("def aux(n):\n    return 0 if n == 0 else 1 + aux(n - 1)", "aux(900) - 900 + x * x"),
        (
            "import functools\n@functools.lru_cache\ndef aux(n):\n    return n",
            "[aux.cache_clear(), aux(x), aux.cache_info().misses * x * x][2]",
        ),
    ],
)
def test_a_helper_can_do_what_it_can_do_alone(helper, body):
    team = Program(
        (("aux_0", helper), ("main_0", f"def sq(x):\n    return {body}")),
        "sq",
        helpers=(("aux_0", "aux"),),
    )
    execution = Sandbox(cache_size=0).run(team, instrument(SQUARES, "sq"))
    assert [test.status for test in execution.tests] == ["passed", "passed"], execution
    assert execution.helper_calls[0] > 0
