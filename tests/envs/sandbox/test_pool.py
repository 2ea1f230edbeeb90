"""The pool of workers: batches, threads, forks, cached results, and our own failures."""

from __future__ import annotations

import pickle
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace

import pytest

from llm_decpomdp.envs.sandbox import Execution, Limits, Sandbox, SandboxError, instrument
from llm_decpomdp.envs.sandbox.pool import WorkerPool, _failed_result
from llm_decpomdp.envs.sandbox.program import WorkerResult
from llm_decpomdp.envs.sandbox.sandbox import _job
from llm_decpomdp.envs.sandbox.worker_process import WorkerProcess, WorkerSettings
from tests.envs.sandboxed import (
    SHORT,
    TELLS_ITS_RUNS,
    TESTS,
    message_of,
    program,
    run,
    run_caller,
)
from tests.support.programs import SQUARE, SQUARES, check

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux's processes")


# Batches


def test_a_worker_returns_the_fields_of_an_execution():
    job = _job(program(SQUARE), TESTS, SHORT)
    (result,) = Sandbox(SHORT, workers=1)._pool().run([job])
    expected = WorkerResult.__annotations__.keys()
    assert result.keys() == _failed_result(job, "crashed", "", False).keys() == expected
    assert expected == {field.name for field in fields(Execution)}


def test_a_program_that_crashes_its_worker_has_called_no_helper():
    job = _job(program(SQUARE), TESTS, SHORT) | {"helpers": [["aux_0", "aux"]]}
    result = _failed_result(job, "crashed", "", False)
    assert [test[0] for test in result["tests"]] == [False, False]
    assert (result["helper_calls"], result["reached"]) == ([0], [0, 0])
    assert result["helpers_used"] == result["helpers_suffice"] == [False]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_batch_keeps_its_order_whatever_the_number_of_workers(workers):
    waits = "import time\ntime.sleep(0.1)\n"
    values = (4, 9, 0, 4) * 3
    jobs = [(program(f"{waits * (v == 4)}def sq(x):\n    return {v}"), TESTS) for v in values]
    executions = Sandbox(workers=workers, cache_size=0).run_batch(jobs)
    assert [[o.passed for o in e.tests] for e in executions] == [[v == 4, v == 9] for v in values]
    assert Sandbox(workers=workers).run_batch([]) == []


@pytest.mark.parametrize("cache_size", [0, 100])
def test_equal_programs_of_one_batch_run_once(cache_size):
    sandbox = Sandbox(SHORT, workers=2, cache_size=cache_size)
    same, variant = program(TELLS_ITS_RUNS), program(TELLS_ITS_RUNS + "\n")
    first, second, third = sandbox.run_batch([(same, TESTS), (same, TESTS), (variant, TESTS)])
    assert first == second and first.tests != third.tests


def test_a_program_that_breaks_its_process_costs_the_others_nothing():
    codes = [SQUARE, "import os\nos._exit(1)", "while True: pass", SQUARE + "\n", "raise KeyError"]
    jobs = [(program(code), TESTS) for code in codes]
    executions = Sandbox(SHORT, workers=2, cache_size=0).run_batch(jobs)
    errors = [e.error.status if e.error else "" for e in executions]
    assert errors == ["", "crashed", "timeout", "", "error"]


# Threads


def test_s9_threads_may_share_one_sandbox():
    sandbox = Sandbox(workers=2, cache_size=0)
    codes = [f"def sq(x):\n    return x * x + {n % 3}" for n in range(24)]
    with ThreadPoolExecutor(8) as threads:
        executions = list(threads.map(lambda code: sandbox.run(program(code), TESTS), codes))
    assert [all(o.passed for o in e.tests) for e in executions] == [n % 3 == 0 for n in range(24)]


def start_taker(pool: WorkerPool, order: list[int], number: int) -> threading.Thread:
    """Start a thread that waits for a worker, notes its number, and gives the worker back."""

    def take() -> None:
        workers: list[WorkerProcess] = []
        pool.take(workers, 1)
        order.append(number)
        pool.give_back(workers)

    thread = threading.Thread(target=take)
    before = pool.queue
    thread.start()
    while pool.queue == before:
        time.sleep(0.001)
    return thread


def test_callers_get_their_workers_in_the_order_in_which_they_came():
    pool = WorkerPool(1, WorkerSettings())
    order: list[int] = []
    workers: list[WorkerProcess] = []
    pool.take(workers, 1)
    threads = [start_taker(pool, order, number) for number in range(4)]
    pool.give_back(workers)
    pool.take(workers, 1)  # asks last, though it is the first to run
    order.append(4)
    pool.give_back(workers)
    for thread in threads:
        thread.join(60)
    assert order == [0, 1, 2, 3, 4]
    pool.close()


def test_a_caller_that_is_interrupted_costs_the_others_nothing():
    pool = WorkerPool(1, WorkerSettings())
    order: list[int] = []
    workers: list[WorkerProcess] = []
    pool.take(workers, 1)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    main = threading.main_thread().ident
    assert main is not None
    try:
        timer = threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            pool.take([], 1)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert pool.queue == 0
    thread = start_taker(pool, order, 1)
    pool.give_back(workers)
    thread.join(60)
    assert order == [1] and not workers
    pool.close()


TELLS_ITS_TIME = """
import time

def sq(x):
    begin = time.monotonic()
    time.sleep(0.3)
    raise ValueError(f"{begin} {time.monotonic()}")
"""


@pytest.mark.parametrize("jobs", [3, 4])
def test_every_worker_gets_a_job_before_any_gets_its_second(jobs):
    sandbox = Sandbox(workers=3, cache_size=0)
    once = instrument(check("assert candidate(2) == 4"), "sq")
    batch = [(program(f"{TELLS_ITS_TIME}# {n}"), once) for n in range(jobs)]
    outcomes = [execution.tests[0].message for execution in sandbox.run_batch(batch)]
    times = [[float(word) for word in message.split()[1:]] for message in outcomes]
    assert max(begin for begin, _ in times[:3]) < min(end for _, end in times[:3])


@pytest.mark.parametrize("milliseconds", [2, 30, 60, 100])
def test_s9_an_interrupt_while_a_worker_is_started_again_shifts_no_result(milliseconds):
    output = run_caller(f"""
sandbox = Sandbox(SHORT, workers=1, cache_size=0)
assert statuses(sandbox) == PASSED
signal.signal(signal.SIGINT, signal.default_int_handler)
(worker,) = workers_of(os.getpid())
os.kill(worker, signal.SIGKILL)
try:
    threading.Timer({milliseconds} / 1000, os.kill, (os.getpid(), signal.SIGINT)).start()
    statuses(sandbox)
    time.sleep(1)
except KeyboardInterrupt:
    pass
for n in range(4):
    wrong = f"def sq(x):\\n    raise ValueError({{n}})"
    print(sandbox.run(program(wrong), TESTS).tests[0].message)
""")
    assert output.split("\n") == [f"ValueError: {n}" for n in range(4)] + [""]


def test_a_thread_that_outlives_its_test_befalls_no_other_program():
    loop = ("    for _ in range(50):", "        candidate(2)", "        time.sleep(0.01)")
    again = ("import threading, time", "def again():", "    time.sleep(0.3)", *loop)
    threads = ("for _ in range(3):", "    threading.Thread(target=again).start()")
    outlives = check(*again, *threads, "assert candidate(2) == 4")
    jobs = []
    for number in range(10):
        jobs.append((program(f"{SQUARE}\n# {number}"), instrument(outlives, "sq")))
        right = f"def sq(x):\n    return x + {number}"
        test = check(f"assert [candidate(n) for n in range(5)] == [n + {number} for n in range(5)]")
        jobs.append((program(right), instrument(test, "sq")))
    executions = Sandbox(Limits(), workers=1, cache_size=0).run_batch(jobs)
    assert [test.status for e in executions for test in e.tests] == ["passed"] * 20


def test_threads_that_ask_for_the_same_share_one_run():
    sandbox = Sandbox(workers=2)
    code = f"import time\ntime.sleep(0.2)  # {time.monotonic_ns()}\n{TELLS_ITS_RUNS}"
    with ThreadPoolExecutor(6) as threads:
        assert len({*threads.map(lambda _: message_of(sandbox, code), range(6))}) == 1


# Cached results


def test_a_result_is_cached_by_all_that_it_depends_on():
    sandbox = Sandbox(SHORT, workers=1)
    code = f"{TELLS_ITS_RUNS}  # {time.monotonic_ns()}"
    first = message_of(sandbox, code)
    assert message_of(sandbox, code) == message_of(Sandbox(SHORT, workers=2), code) == first
    messages = [
        message_of(sandbox, code + " "),
        message_of(sandbox, code, Limits(load_seconds=0.8, test_seconds=0.7)),
        message_of(Sandbox(SHORT, workers=1, seed=1), code),
        message_of(Sandbox(SHORT, workers=1, without=("namespaces",)), code),
        message_of(Sandbox(SHORT, workers=1, cache_size=0), code),
        sandbox.run(program(code), instrument(SQUARES + "\n    assert candidate(1)", "sq")).tests[0].message,
    ]  # fmt: skip
    assert len({first, *messages}) == 7


def test_a_sandbox_without_a_cache_leaves_the_cache_of_others_alone():
    code = f"{TELLS_ITS_RUNS}  # {time.monotonic_ns()}"
    first = message_of(Sandbox(SHORT), code)
    message_of(Sandbox(SHORT, cache_size=0))
    assert message_of(Sandbox(SHORT), code) == first


def test_the_oldest_results_are_dropped():
    sandbox = Sandbox(SHORT, workers=1, cache_size=2)
    codes = [f"{TELLS_ITS_RUNS}  # {n} {time.monotonic_ns()}" for n in range(3)]
    first, *_, last = [message_of(sandbox, code) for code in codes]
    assert message_of(sandbox, codes[2]) == last and message_of(sandbox, codes[0]) != first


def test_a_timeout_by_the_clock_is_not_cached_but_one_by_processor_time_is():
    limits = Limits(load_seconds=2, test_seconds=0.2, max_timeouts=1)
    mark = time.monotonic_ns()
    for body, factor, cached in (("time.sleep(60)", 3, False), ("while True: pass", 50, True)):
        sandbox = Sandbox(replace(limits, wall_factor=factor), workers=1)
        code = f"import time  # {mark}\ndef sq(x):\n    {body}"
        first, again = (sandbox.run(program(code), TESTS) for _ in range(2))
        assert first.tests[0].status == again.tests[0].status == "timeout"
        assert (first.seconds == again.seconds) == cached


# Its life


def test_a_sandbox_can_be_pickled():
    sandbox = Sandbox(SHORT, 3, "require", ("seccomp",), 7, 2)
    twin = pickle.loads(pickle.dumps(sandbox))
    assert vars(twin) == vars(sandbox)
    assert message_of(pickle.loads(pickle.dumps(Sandbox(SHORT)))).startswith("ValueError")


def test_a_closed_sandbox_works_again():
    sandbox = Sandbox(SHORT, workers=1, cache_size=0)
    for _ in range(2):
        assert sandbox.run(program(SQUARE), TESTS).tests[0].passed
        sandbox.close()
    sandbox.close()


def test_closing_while_another_thread_waits_costs_it_nothing():
    sandbox = Sandbox(workers=1, cache_size=0)
    executions = []
    code = f"import time\ntime.sleep(0.4)\n{SQUARE}"
    thread = threading.Thread(target=lambda: executions.append(sandbox.run(program(code), TESTS)))
    thread.start()
    time.sleep(0.2)
    sandbox.close()
    thread.join()
    assert all(o.passed for o in executions[0].tests)


# Forks of the caller


@linux
def test_a_forked_caller_has_workers_of_its_own():
    run_caller(
        """
sandbox = Sandbox(SHORT, workers=1, cache_size=0)
assert statuses(sandbox) == PASSED
own = workers_of(os.getpid())
child = os.fork()
if child == 0:
    good = statuses(sandbox) == PASSED
    theirs = workers_of(os.getpid())
    os._exit(0 if good and len(theirs) == 1 and not theirs & own else 1)
assert os.waitpid(child, 0)[1] == 0
assert statuses(sandbox) == PASSED and workers_of(os.getpid()) == own
"""
    )


@linux
def test_a_caller_that_forks_while_a_program_runs_waits_for_nobody():
    run_caller(
        """
sandbox = Sandbox(SHORT, workers=1)
slow = "import time\\ntime.sleep(1)\\n" + SQUARE
thread = threading.Thread(target=statuses, args=(sandbox, slow))
thread.start()
time.sleep(0.3)
child = os.fork()
if child == 0:
    signal.alarm(30)
    os._exit(0 if statuses(sandbox, slow) == PASSED else 1)
assert os.waitpid(child, 0)[1] == 0
thread.join()
"""
    )


# Our own failures


def test_an_interpreter_that_is_missing_is_our_failure(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(SandboxError, match="cannot start a process"):
        run(SQUARE)


def test_an_interpreter_that_does_not_work_is_our_failure(monkeypatch, tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such library >&2\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(SandboxError, match=r"did not start .*no such library"):
        run(SQUARE)


def test_a_failure_of_ours_is_not_remembered(monkeypatch):
    code = f"{SQUARE}  # {time.monotonic_ns()}"
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(SandboxError):
            run(code, cache_size=9)
    assert run(code, cache_size=9).tests[0].passed


def test_a_test_that_ends_the_evaluator_is_named_as_our_failure():
    test = "import os\n" + check("os._exit(3)", "assert candidate(2) == 4")
    with pytest.raises(SandboxError, match=r"died 3 times at one program \(exit status 3\)"):
        run(SQUARE, test, workers=1)


def test_a_system_without_processes_of_our_kind_is_told_what_to_use(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SandboxError, match="needs Linux or macOS: on Windows, use WSL"):
        Sandbox(cache_size=0).run(program(SQUARE), instrument(SQUARES, "sq"))
