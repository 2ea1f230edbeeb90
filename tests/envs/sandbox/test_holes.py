"""Holes that were found and closed: each test is the shortest way through one of them."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_decpomdp.envs.sandbox import Limits, Sandbox, SandboxError, instrument
from llm_decpomdp.envs.sandbox import worker_process as workers
from tests.envs.sandboxed import (
    CHANNEL,
    SHORT,
    end_within,
    program,
    run,
    trainer,
    workers_of,
    zygote_of,
)
from tests.support.programs import SQUARE, SQUARES, check

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
TESTS = instrument(SQUARES, "sq")
PASSED = ["passed", "passed"]
SLOW = "import time\ndef sq(x):\n    time.sleep(0.2)\n    return x * x"


@pytest.fixture
def own() -> Iterator[Sandbox]:
    """A sandbox with a single worker that no other test uses."""
    sandbox = Sandbox(Limits(load_seconds=5, test_seconds=2), workers=1, cache_size=0, seed=31)
    yield sandbox
    sandbox.close()


def said(sandbox: Sandbox, code: str = SQUARE, test: str = SQUARES) -> list[str]:
    execution = sandbox.run(program(code), instrument(test, "sq"))
    return [outcome.status for outcome in execution.tests]


def only_worker(sandbox: Sandbox) -> int:
    """The worker of a sandbox, which is started by this."""
    sandbox.close()
    before = workers_of(os.getpid())
    assert said(sandbox) == PASSED
    (worker,) = workers_of(os.getpid()) - before
    return worker


# The worker and its neighbours


@linux
def test_a_zygote_that_is_killed_between_two_calls_costs_only_time(own):
    worker = only_worker(own)
    timer = threading.Timer(0.3, os.kill, (zygote_of(worker), signal.SIGKILL))
    timer.start()
    computed = check(
        "x = len('ab')", "for y in (x, x + 1, x + 2, x + 3):", "    assert candidate(y) == y * y"
    )
    assert said(own, SLOW, computed) == ["passed"]
    timer.join()
    assert end_within(5, {worker})


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
    verdicts = said(own, DEEP + then + SQUARE)
    assert verdicts == (["crashed"] * 2 if then else PASSED)
    assert [said(own) for _ in range(4)] == [PASSED] * 4


LOW = {"CPU": 100, "FSIZE": 10**7, "AS": 4 * 10**9, "NPROC": 100, "NOFILE": 60, "STACK": 2**20}


@linux
@pytest.mark.parametrize(("name", "value"), LOW.items(), ids=LOW)
def test_a_trainer_with_low_limits_gets_right_verdicts(name, value):
    if name == "NPROC" and os.getuid() != 0:  # all threads of an ordinary user count
        value += int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    output = trainer(
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
    worker = only_worker(sandbox)
    weaker = tmp_path / "worker.py"
    weaker.write_text(
        "import runpy, sys\nsys.argv[2] = '[\"landlock\"]'\n"
        f"runpy.run_path({str(workers.SCRIPT)!r}, run_name='__main__')\n"
    )
    monkeypatch.setattr(workers, "SCRIPT", weaker)
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(SandboxError, match="this system lacks landlock"):
        said(sandbox)
    monkeypatch.undo()
    assert said(sandbox) == PASSED
    sandbox.close()


# Who waits for whom


def test_a_batch_gives_workers_to_those_who_wait():
    sandbox = Sandbox(workers=2, cache_size=0, seed=34)
    order = []
    batch = [(program(f"{SLOW}  # {number}"), TESTS) for number in range(14)]

    def long() -> None:
        sandbox.run_batch(batch)
        order.append("long")

    said(sandbox)
    thread = threading.Thread(target=long)
    thread.start()
    time.sleep(0.2)
    assert (
        said(sandbox, f"import time\ntime.sleep(0.6)  # more than one of the batch\n{SQUARE}")
        == PASSED
    )
    order.append("short")
    thread.join()
    sandbox.close()
    assert order == ["short", "long"]


def test_an_interrupt_of_one_thread_leaves_another_that_waits_for_the_same_its_verdict():
    output = trainer(
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
    try:
        verdicts = said(
            sandbox, "def sq(x):\n    return 10**12", check("assert sum(range(candidate(1)))")
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        sandbox.close()
    assert verdicts == ["timeout"]


def test_a_test_that_sleeps_on_a_value_is_a_timeout_by_the_clock(monkeypatch):
    monkeypatch.setattr(workers, "GRACE_SECONDS", 6.0)
    limits = Limits(load_seconds=1, test_seconds=0.5, program_seconds=0.5, wall_factor=1)
    test = "import time\n" + check("time.sleep(candidate(1))", "assert candidate(1) == 1")
    execution = run("def sq(x):\n    return 10**6", test, limits, workers=1)
    assert [outcome.status for outcome in execution.tests] == ["timeout"]
    assert execution.wall_decided  # such verdicts are not remembered


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
        assert said(own, test=test) == ["passed"]


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
