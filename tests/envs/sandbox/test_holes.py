"""Holes that were found and closed, each by the shortest way through it, and programs that send answers."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_decpomdp.envs.sandbox import Limits, Program, Sandbox, SandboxError, instrument
from llm_decpomdp.envs.sandbox import worker_process as workers
from llm_decpomdp.envs.sandbox.worker.confinement import landlock
from tests.envs.sandboxed import (
    CHANNEL,
    PASSED,
    SHORT,
    SLOW,
    TESTS,
    end_within,
    program,
    run,
    run_caller,
    start_worker,
    statuses_in,
    value_of,
    workers_of,
    zygote_of,
)
from tests.support.programs import SQUARE, SQUARES, check

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture(scope="module")
def own() -> Iterator[Sandbox]:
    """A sandbox with a single worker that no other module uses."""
    sandbox = Sandbox(Limits(load_seconds=5, test_seconds=2), workers=1, cache_size=0, seed=31)
    yield sandbox
    sandbox.close()


# The worker and its neighbours


@linux
def test_a_zygote_that_is_killed_between_two_calls_costs_only_time(own):
    worker = start_worker(own)
    timer = threading.Timer(0.3, os.kill, (zygote_of(worker), signal.SIGKILL))
    timer.start()
    loop = ("for y in (x, x + 1, x + 2, x + 3):", "    assert candidate(y) == y * y")
    computed = check("x = len('ab')", *loop)
    assert statuses_in(own, SLOW, computed) == ["passed"]
    timer.join()
    assert end_within(60, {worker})


DEEP = """
import os
parent = os.open(".", os.O_RDONLY)
for _ in range(240):
    os.mkdir("d", dir_fd=parent)
    inner = os.open("d", os.O_RDONLY, dir_fd=parent)
    os.close(parent)
    parent = inner
"""


@pytest.mark.parametrize("then", ["", "os._exit(3)\n"])
def test_folders_of_any_depth_harm_neither_their_program_nor_the_next_ones(own, then):
    outcomes = statuses_in(own, DEEP + then + SQUARE)
    assert outcomes == (["crashed"] * 2 if then else PASSED)
    assert [statuses_in(own) for _ in range(4)] == [PASSED] * 4


LOW = {"CPU": 100, "FSIZE": 10**7, "AS": 4 * 10**9, "NPROC": 100, "NOFILE": 60, "STACK": 2**20}


@linux
@pytest.mark.parametrize(("name", "value"), LOW.items(), ids=LOW)
def test_a_caller_with_low_limits_gets_right_outcomes(name, value):
    if name == "NPROC" and os.getuid() != 0:  # all threads of an ordinary user count
        value += int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    output = run_caller(
        f"resource.setrlimit(resource.RLIMIT_{name}, ({value}, {value}))\n"
        "print(*statuses(Sandbox(SHORT, workers=1)), *statuses(Sandbox(SHORT), 'def sq(x): return 0'))"
    )
    assert output.split() == ["passed", "passed", "failed", "failed"]


def test_closing_a_sandbox_that_was_not_used_starts_nothing(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    Sandbox(workers=2, seed=32).close()


@linux
def test_a_worker_that_is_started_again_must_have_the_required_layers_too(tmp_path, monkeypatch):
    sandbox = Sandbox(SHORT, workers=1, isolation="require", cache_size=0, seed=33)
    worker = start_worker(sandbox)
    weaker = tmp_path / "worker.py"
    weaker.write_text(
        "import runpy, sys\nsys.argv[2] = '[\"landlock\"]'\n"
        f"runpy.run_path({str(workers.SCRIPT)!r}, run_name='__main__')\n"
    )
    monkeypatch.setattr(workers, "SCRIPT", weaker)
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(SandboxError, match="this system lacks landlock"):
        statuses_in(sandbox)
    monkeypatch.undo()
    assert statuses_in(sandbox) == PASSED
    sandbox.close()


# Who waits for whom


def test_a_batch_gives_workers_to_those_who_wait():
    sandbox = Sandbox(workers=2, cache_size=0, seed=34)
    order = []
    batch = [(program(f"{SLOW}  # {number}"), TESTS) for number in range(14)]

    def long() -> None:
        sandbox.run_batch(batch)
        order.append("long")

    statuses_in(sandbox)
    thread = threading.Thread(target=long)
    thread.start()
    time.sleep(0.2)
    # It takes more time than one of the batch.
    assert statuses_in(sandbox, f"import time\ntime.sleep(0.6)\n{SQUARE}") == PASSED
    order.append("short")
    thread.join()
    sandbox.close()
    assert order == ["short", "long"]


def test_an_interrupt_of_one_thread_leaves_another_that_waits_for_the_same_its_result():
    output = run_caller(
        """
sandbox = Sandbox(workers=2)
code = "import time\\ntime.sleep(1)\\n" + SQUARE
other = threading.Thread(target=lambda: print("other", *statuses(sandbox, code), flush=True))
threading.Timer(0.2, other.start).start()
threading.Timer(0.6, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    sandbox.run(program(code), TESTS)
except KeyboardInterrupt:
    print("interrupted", flush=True)
other.join()
"""
    )
    assert output.splitlines() == ["interrupted", "other passed passed"]


# Tests that do not end


def test_a_thread_that_blocks_signals_does_not_lift_the_limit_of_a_test(monkeypatch):
    monkeypatch.setattr(workers, "GRACE_SECONDS", 3.0)
    limits = Limits(load_seconds=1, test_seconds=0.3, program_seconds=1, wall_factor=1)
    sandbox = Sandbox(limits, workers=1, cache_size=0, seed=35)
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF, signal.SIGALRM])
    endless = check("assert sum(range(candidate(1)))")
    try:
        outcomes = statuses_in(sandbox, "def sq(x):\n    return 10**12", endless)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        sandbox.close()
    assert outcomes == ["timeout"]


def test_a_test_that_sleeps_on_a_value_is_a_timeout_by_the_clock(monkeypatch):
    monkeypatch.setattr(workers, "GRACE_SECONDS", 6.0)
    limits = Limits(load_seconds=1, test_seconds=0.5, program_seconds=0.5, wall_factor=1)
    test = "import time\n" + check("time.sleep(candidate(1))", "assert candidate(1) == 1")
    execution = run("def sq(x):\n    return 10**6", test, limits, workers=1)
    assert [outcome.status for outcome in execution.tests] == ["timeout"]
    assert execution.wall_decided  # such outcomes are not remembered


# What a test finds

CHANGES = {
    "the precision of decimals": (
        "import decimal\n" + check("decimal.getcontext().prec = 3", "assert candidate(2) == 4"),
        "from decimal import Decimal\n"
        + check("assert len(str(Decimal(1) / Decimal(candidate(2) + 3))) > 20"),
    ),
    "a builtin function": (
        "import builtins\n" + check("builtins.sorted = lambda x: [9]", "assert candidate(2) == 4"),
        check("assert sorted([candidate(3), candidate(2)]) == [4, 9]"),
    ),
    "the recursion limit": (
        "import sys\n" + check("sys.setrecursionlimit(150)", "assert candidate(2) == 4"),
        check("def down(n):", "    return candidate(2) if n == 0 else down(n - 1)", "assert down(500) == 4"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changing", "depending"), CHANGES.values(), ids=CHANGES)
def test_what_a_test_changes_in_its_process_is_undone_for_the_next(own, changing, depending):
    for test in (depending, changing, depending):
        assert statuses_in(own, test=test) == ["passed"]


@pytest.mark.parametrize("origin", ["aux_0", "x" * 150, "\ud800\nmain_0"], ids=ascii)
def test_no_program_blames_what_is_no_part_of_it(origin):
    failure = ["KeyError", "text", origin, 1, "", "KeyError", []]
    code = f"{CHANNEL}send('loaded', {failure!r}, None, [], '')\ntime.sleep(9)"
    assert {(o.passed, o.origin) for o in run(code).tests} == {(False, "")}
    code = f"{CHANNEL}def sq(x):\n    send('error', {failure!r}, None, [], '')\n    time.sleep(9)"
    assert {(o.passed, o.origin) for o in run(code).tests} == {(False, "")}


@pytest.mark.parametrize("status", ["passed", "weird", "not_run", "\ud800"])
def test_no_program_makes_up_a_status(status):
    failure = f"['KeyError', 'text', '', 1, {status!r}]"
    code = f"{CHANNEL}send('loaded', None, None, [], '')\nsend('stage', [0, None], None, [], '')\n"
    code += f"send('test', [0, {failure}], None, [], '')\nsend('done', [[0, 1]], None, [], '')\ntime.sleep(9)\n"
    (outcome,) = run(code, check("assert candidate(2) == 4"), split=False).tests
    assert outcome.status == "error" and outcome.message == "KeyError: text"


# Programs that answer in place of the code around them

# A program that answers in place of the code around it.
SPEAKS = f'{CHANNEL}\ndef sq(x):\n    return 0\n\nsend("loaded", None, None, [], "")\n'
ITERATOR = {"handle": ["iterator", 0, "x"]}
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
    catch = ("try:", "    candidate(2)", "except ValueError as e:")
    asks = check(*catch, "    assert str(e) == 'mine'")
    assert statuses_in(own, told(kind, arguments, "mine"), asks) == ["passed"]
    assert statuses_in(own) == PASSED


def test_a_syntax_error_does_not_take_gigabytes(own):
    raises = "e = SyntaxError('x'); e.args = ('m', range(42 * 10**6)); raise e"
    pages = "resource.getrusage(resource.RUSAGE_SELF).ru_minflt"
    catch = (f"before = {pages}", "try:", "    candidate(2)", "except Exception:")
    test = check("import resource", *catch, f"    assert {pages} - before < 50_000")
    assert statuses_in(own, f"def sq(x):\n    {raises}", test) == ["passed"]


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
    assert set(statuses_in(own, code)) == {"crashed"}
    assert statuses_in(own) == PASSED


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
    assert "passed" not in statuses_in(own, code, takes)
    assert statuses_in(own) == PASSED


@pytest.mark.parametrize(
    "changed", [ITERATOR, [ITERATOR, []], [[[]], ITERATOR], [[[]], [ITERATOR]]]
)
def test_changed_arguments_are_a_list_and_pairs(own, changed):
    takes = check("assert candidate([1]) == 4")
    code = f"{SPEAKS}\nsend('value', 4, {changed!r}, [], '')\n"
    assert statuses_in(own, code, takes) == ["crashed"]
    assert statuses_in(own) == PASSED


def test_what_is_too_large_to_compare_is_called_that():
    nested = "def sq(x):\n    return {((i, j),) for i in range(150) for j in range(150)}"
    (outcome,) = run(nested, check("assert len(candidate(2)) == 22500")).tests
    assert outcome.status == "error" and "too large to compare" in outcome.message


# The process that judges


def test_values_that_crash_the_interpreter_of_the_test_have_a_result(own):
    # The test does to its process what a hole in the interpreter would.
    ends = check("import ctypes", "x = candidate(2)", "x or ctypes.string_at(0)", "assert x == 4")
    codes = ("def sq(x):\n    return 0", SQUARE)
    jobs = [(program(code), instrument(ends, "sq")) for code in codes]
    wrong, right = own.run_batch(jobs)
    assert [test.status for test in wrong.tests] == ["crashed"] and right.tests[0].passed
    assert "SIGSEGV" in wrong.tests[0].message


@linux
def test_a_zygote_that_a_program_has_stopped_costs_only_time():
    sandbox = Sandbox(workers=1, without=("namespaces", "seccomp"), cache_size=0)
    stops = f"import os\nos.kill(os.getppid(), {int(signal.SIGSTOP)})\n{SQUARE}"
    statuses_in(sandbox, stops)
    workers = workers_of(os.getpid())
    assert [statuses_in(sandbox) for _ in range(3)] == [PASSED] * 3
    workers |= workers_of(os.getpid())
    sandbox.close()
    assert end_within(60, workers - workers_of(os.getpid()))


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


@pytest.mark.skipif(not landlock.abi(), reason="no private folders here")
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
