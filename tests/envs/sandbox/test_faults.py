"""Faults of the machine and of its users: a right result or a clear error, no hang, nothing left behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from textwrap import indent

import pytest

from llm_decpomdp.envs.sandbox import Limits, Sandbox
from tests.envs.sandboxed import (
    HANG_ON_TWO,
    PASSED,
    SLOW,
    TESTS,
    end_within,
    processes,
    program,
    run_caller,
    start_caller,
    start_worker,
    statuses_in,
    zygote_of,
)
from tests.support.programs import SQUARE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
LIMITS = Limits(load_seconds=5, test_seconds=2)


@pytest.fixture
def own() -> Iterator[Sandbox]:
    """A sandbox with a worker that no other test uses."""
    sandbox = Sandbox(LIMITS, workers=1, cache_size=0, seed=99)
    yield sandbox
    sandbox.close()


# Kills


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("kind", ["evaluator", "zygote"])
def test_a_worker_that_is_killed_costs_only_time(own, kind, busy):
    worker = start_worker(own)
    victim = worker if kind == "evaluator" else zygote_of(worker)
    timer = threading.Timer(0.1 * busy, os.kill, (victim, signal.SIGKILL))
    timer.start()
    while not busy and victim in processes():  # until then its child may still answer
        time.sleep(0.001)
    jobs = [(program(f"{SLOW}  # {number}"), TESTS) for number in range(4)]
    for execution in own.run_batch(jobs):
        assert [outcome.status for outcome in execution.tests] == PASSED
    timer.join()
    assert end_within(60, {worker})


START = """
sandbox = Sandbox(Limits(load_seconds=60, test_seconds=60), workers=2, cache_size=0)
jobs = [(program(f"{CODE}  # {number}"), TESTS) for number in range(6)]
sandbox.run_batch([(program(SQUARE), TESTS), (program(SQUARE + " "), TESTS)])
print(*workers_of(os.getpid()), flush=True)
"""
BUSY = f"\nCODE = {HANG_ON_TWO!r}" + START


def started(code: str):
    process = start_caller(code)
    assert process.stdout is not None
    workers = {int(number) for number in process.stdout.readline().split()}
    assert len(workers) == 2
    time.sleep(0.3)
    return process, workers


@pytest.mark.parametrize(
    "then", ["time.sleep(60)", "sandbox.run_batch(jobs)"], ids=["idle", "busy"]
)
def test_no_process_outlives_a_caller_that_is_killed(then):
    process, workers = started(BUSY + then)
    process.kill()
    process.communicate()
    assert end_within(60, workers)


def test_a_fork_of_the_caller_keeps_no_worker_alive():
    process, workers = started(
        BUSY
        + """
thread = threading.Thread(target=sandbox.run_batch, args=(jobs,), daemon=True)
thread.start()
time.sleep(0.2)
if os.fork() == 0:
    os.closerange(0, 3)
    time.sleep(60)
    os._exit(0)
print("forked", flush=True)
time.sleep(60)
"""
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate()
    ended = end_within(60, workers)
    os.killpg(process.pid, signal.SIGKILL)
    assert ended


def test_no_process_outlives_a_caller_that_ends():
    process, workers = started(f"CODE = {SQUARE!r}{START}sandbox.run_batch(jobs)")
    assert process.communicate(timeout=120)[1] == "" and process.returncode == 0
    assert end_within(60, workers)


def test_an_interrupt_ends_the_batch_and_leaves_the_sandbox_usable():
    process, workers = started(
        f"try:{indent(BUSY, '    ')}"
        + """
    sandbox.run_batch(jobs)
except KeyboardInterrupt:
    assert statuses(sandbox) == ["passed", "passed"]
    print("works", *workers_of(os.getpid()), flush=True)
"""
    )
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    assert output.startswith("works"), errors
    assert end_within(60, workers | {int(number) for number in output.split()[1:]})


def test_an_interrupt_that_nobody_catches_leaves_nothing_behind():
    process, workers = started(BUSY + "sandbox.run_batch(jobs)")
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=120)[1]
    assert end_within(60, workers)


# Resources


def test_without_descriptors_there_is_a_clear_error_and_later_a_right_result():
    output = run_caller(
        """
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
sandbox = Sandbox(SHORT, workers=1, cache_size=0)
def exhausted(spare):
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        for descriptor in taken[:spare]:
            os.close(descriptor)
    try:
        return str(statuses(sandbox))
    except SandboxError as error:
        return str(error)
    finally:
        for descriptor in taken[spare:]:
            os.close(descriptor)
signal.alarm(120)
for dies in (False, True):
    for spare in range(9):
        if dies:
            assert statuses(sandbox) == ["passed", "passed"]
            for worker in workers_of(os.getpid()):
                os.kill(worker, signal.SIGKILL)
        else:
            sandbox.close()
        said = exhausted(spare)
        assert said == "['passed', 'passed']" or "Too many open files" in said, said
        assert statuses(sandbox) == ["passed", "passed"]
    sandbox.close()
    print(len(os.listdir("/proc/self/fd")))
""",
        seconds=150,
    )
    first, second = output.split()
    assert first == second


NOBODY = """
import shutil
user = 61234
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
if not os.access(sys.executable, os.X_OK):
    sys.executable = shutil.which("python3", path="/usr/local/bin:/usr/bin")
def allow(processes, whom=0):
    hard = resource.prlimit(whom, resource.RLIMIT_NPROC)[1]
    resource.prlimit(whom, resource.RLIMIT_NPROC, (processes, hard))
sandbox = Sandbox(SHORT, workers=1, cache_size=0)
try:
    assert statuses(sandbox) == ["passed", "passed"]
except SandboxError as error:
    print("no interpreter for this user:", error)
    sys.exit()
"""


def as_nobody(code: str) -> list[str]:
    """Return the lines that a caller prints whose user has no other processes."""
    if os.getuid() != 0:
        pytest.skip("only root can become a user without other processes")
    output = run_caller(NOBODY + code)
    if output.startswith("no interpreter"):
        pytest.skip(output)
    return output.splitlines()


def test_without_processes_there_is_a_clear_error_and_later_a_right_result():
    lines = as_nobody("""
for processes in (1, 2):
    sandbox.close()
    allow(processes)
    try:
        print(statuses(sandbox))
    except SandboxError as error:
        print(str(error).replace("\\n", " "))
    allow(100)
    print(statuses(sandbox))
""")
    assert lines[1] == lines[3] == str(PASSED)
    for said in (lines[0], lines[2]):
        assert "cannot start a process" in said or "did not start" in said
        assert "Resource temporarily unavailable" in said


def test_a_shortage_of_processes_that_passes_is_waited_out():
    lines = as_nobody("""
from tests.envs.sandboxed import zygote_of
(worker,) = workers_of(os.getpid())
zygote = zygote_of(worker)
allow(1, zygote)
threading.Timer(0.5, allow, (50, zygote)).start()
begin = time.monotonic()
jobs = [(program(SQUARE + " " * number), TESTS) for number in range(5)]
print({o.status for e in sandbox.run_batch(jobs) for o in e.tests})
print(time.monotonic() - begin > 0.3, {worker} == workers_of(os.getpid()))
""")
    assert lines == ["{'passed'}", "True True"]


@pytest.mark.parametrize("folder", ["/nonexistent", "/proc"])
def test_without_a_folder_for_temporary_files_there_is_a_result_or_a_clear_error(folder):
    output = run_caller(
        """
import tempfile
tempfile.tempdir = os.environ["TMPDIR"]  # as if no other folder would do
try:
    print(statuses(Sandbox(SHORT, workers=1)))
except SandboxError as error:
    print(error)
""",
        TMPDIR=folder,
    )
    assert output == f"{PASSED}\n" or folder in output


def test_a_clock_that_jumps_does_not_matter(own, monkeypatch):
    real = time.time
    start_worker(own)
    for hours in (-1e6, 1e6):
        monkeypatch.setattr(time, "time", lambda jump=hours: real() + 3600 * jump)
        execution = own.run(program(SLOW), TESTS)
        assert [outcome.status for outcome in execution.tests] == PASSED
        assert 0 < execution.seconds < 30


def test_a_worker_that_stops_is_told_from_a_slow_one_by_its_deadline(own, monkeypatch):
    monkeypatch.setattr("llm_decpomdp.envs.sandbox.worker_process.GRACE_SECONDS", 0.5)
    worker = start_worker(own)
    own.limits = Limits(load_seconds=0.1, test_seconds=0.1, program_seconds=0.1)
    os.kill(worker, signal.SIGSTOP)
    assert statuses_in(own) == PASSED
    assert end_within(60, {worker})
