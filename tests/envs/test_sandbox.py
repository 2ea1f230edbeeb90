"""The sandbox: nothing that a program does reaches us, hangs us or raises in us."""

from __future__ import annotations

import builtins
import os
import pickle
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from llm_decpomdp.envs.sandbox import Limits, Program, Sandbox, SandboxError, instrument

SHORT = Limits(load_seconds=0.7, test_seconds=0.7)
SQUARES = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 9\n"


def run(code: str, test: str = SQUARES, limits: Limits = SHORT):
    return Sandbox(limits).run(Program((("main_0", code),), "sq"), instrument(test, "sq"))


def statuses(code: str, test: str = SQUARES, limits: Limits = SHORT) -> list[str]:
    return [outcome.status for outcome in run(code, test, limits).tests]


def value_of(expression: str, around: str = "") -> str:
    """What an expression is inside the sandbox."""
    code = f"{around}\ndef sq(x):\n    raise ValueError(repr({expression}))"
    return run(code).tests[0].message.removeprefix("ValueError: ")


def test_a_right_program_passes():
    execution = run("def sq(x):\n    return x * x")
    assert [(o.passed, o.status, o.message) for o in execution.tests] == [(True, "passed", "")] * 2
    assert execution.error is None and 0 < execution.seconds < 10


def test_a_wrong_program_fails_and_says_where():
    wrong, broken = run("def sq(x):\n    if x == 3:\n        return 1 / 0\n    return 5").tests
    assert (wrong.status, wrong.message) == (
        "failed",
        "AssertionError: the assertion does not hold",
    )
    assert (broken.status, broken.message) == ("error", "ZeroDivisionError: division by zero")
    assert (broken.origin, broken.line, broken.case) == ("main_0", 3, "assert sq(3) == 9")


def test_parts_share_one_namespace_and_keep_their_own_lines():
    parts = (
        ("prompt", "import math\n"),
        ("aux_0", "\n\ndef aux(x):\n    return math.sqrt(x)"),
        ("main_0", "def sq(x):\n    return aux(-x)"),
    )
    first, _ = Sandbox().run(Program(parts, "sq"), instrument(SQUARES, "sq")).tests
    assert (first.origin, first.line) == ("aux_0", 4)
    assert first.message == "ValueError: math domain error"


# Time


def test_s5_a_program_that_swallows_exceptions_is_stopped():
    code = (
        "def sq(x):\n    while True:\n        try:\n            while True: pass\n"
        "        except BaseException:\n            pass"
    )
    begin = time.monotonic()
    outcomes = run(code).tests
    assert time.monotonic() - begin < 8
    assert {o.status for o in outcomes} == {"timeout"}
    assert outcomes[0].message == "TimeoutError: no result within 0.7 seconds"


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "def sq(x=[0 for _ in iter(int, 1)]):\n    return x",
        "import time\ntime.sleep(60)",
    ],
)
def test_s6_a_program_that_hangs_while_it_loads_is_stopped(code):
    execution = run(code)
    assert execution.error is not None and execution.error.status == "timeout"
    assert {o.status for o in execution.tests} == {"timeout"}


def test_a_hanging_test_costs_only_itself():
    code = "def sq(x):\n    while x == 2:\n        pass\n    return x * x"
    assert statuses(code) == ["timeout", "passed"]


def test_three_timeouts_end_the_run_and_passed_tests_keep_their_credit():
    test = "def check(candidate):\n" + "".join(
        f"    assert candidate({x}) == {x * x}\n" for x in (0, 2, 3, 4, 5, 1)
    )
    code = "def sq(x):\n    while x > 1:\n        pass\n    return x"
    expected = ["passed", "timeout", "timeout", "timeout", "not_run", "not_run"]
    assert statuses(code, test) == expected


def test_a_long_test_may_take_its_time_if_each_statement_is_quick():
    test = "def check(candidate):\n" + "    assert candidate(2) == 4\n" * 4
    code = "import time\ndef sq(x):\n    time.sleep(0.3)\n    return x * x"
    assert statuses(code, test) == ["passed"] * 4


# Ends


@pytest.mark.parametrize("way", ["raise SystemExit", "raise KeyboardInterrupt", "exit_now()"])
def test_s3_leaving_by_an_exception_fails_the_test_only(way):
    code = f"import sys\nexit_now = sys.exit\ndef sq(x):\n    if x == 2:\n        {way}\n    return x * x"
    assert statuses(code) == ["error", "passed"]


def test_s3_leaving_while_loading_fails_every_test():
    execution = run("raise SystemExit(3)")
    assert execution.error is not None and execution.error.message == "SystemExit: 3"
    assert {o.status for o in execution.tests} == {"error"}


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("os._exit(0)", "the program ended its own process (exit code 0)"),
        ("os._exit(7)", "the program ended its own process (exit code 7)"),
        ("os.kill(os.getpid(), 9)", "the program was killed by signal 9 (Killed)"),
        ("os.abort()", "the program was killed by signal 6 (Aborted)"),
        ("os.kill(os.getpid(), 35)", "the program was killed by signal 35"),
    ],
)
def test_s4_ending_the_process_ends_one_test(way, message):
    if sys.platform != "linux" and "35" in way:
        pytest.skip("Linux's own signals")
    code = f"import os\ndef sq(x):\n    if x == 2:\n        {way}\n    return x * x"
    first, second = run(code).tests
    assert first.status == "crashed" and first.message.startswith(message)
    assert second.passed


def test_a_function_that_is_missing_or_no_function_fails_every_test():
    assert run("def cube(x):\n    return x").error is not None
    assert statuses("sq = 5") == ["error", "error"]


# Memory and output


@pytest.mark.skipif(sys.platform != "linux", reason="macOS ignores memory limits")
def test_memory_is_limited():
    limits = Limits(load_seconds=5, test_seconds=5, memory_bytes=200 * 2**20)
    code = "def sq(x):\n    return len(' ' * (2**28 if x == 2 else 1)) * 9"
    assert statuses(code, limits=limits) == ["memory", "passed"]


def test_what_a_program_prints_is_kept_up_to_a_bound():
    code = "print('hello')\ndef sq(x):\n    print('x' * 10**6)\n    return x * x"
    execution = run(code, limits=Limits(output_bytes=1000))
    assert execution.output.startswith("hello\nxxx") and len(execution.output) == 1000
    assert all(o.passed for o in execution.tests)


def test_an_endless_flood_of_output_ends_with_its_test():
    assert statuses("def sq(x):\n    while True:\n        print('x' * 10**5)") == ["timeout"] * 2


def test_the_text_of_an_exception_is_bounded_and_can_be_written_to_a_file():
    outcome, _ = run("def sq(x):\n    raise ValueError('\\udc80' + 'a' * 10**6)").tests
    assert len(outcome.message) < 400
    outcome.message.encode()


# Isolation


def test_the_environment_holds_no_secrets(monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "hunter2")
    names = value_of("sorted(os.environ)", "import os")
    assert "SECRET_KEY" not in names and "PATH" not in names and "HOME" not in names


def test_the_working_folder_is_fresh_empty_and_gone_afterwards():
    folder = Path(eval(value_of("os.getcwd()", "import os\nopen('left.txt', 'w').write('x')")))
    assert folder.parent == Path(tempfile.gettempdir()).resolve()
    assert not folder.exists()
    assert value_of("os.listdir()", "import os") == "[]"


def test_only_the_standard_library_can_be_imported():
    for name in ("llm_decpomdp", "numpy", "worker", "sandbox"):
        assert (
            run(f"import {name}").error.message == f"ModuleNotFoundError: No module named '{name}'"
        )


def test_standard_input_is_empty():
    assert run("def sq(x):\n    return input()").tests[0].message.startswith("EOFError")


def test_s7_what_a_program_patches_stays_in_its_process():
    state = random.getstate()
    code = (
        "import builtins, random, os\nbuiltins.sorted = lambda *a, **k: []\nrandom.seed(0)\n"
        "os.environ['LEAK'] = '1'\nos.chdir('/')\ndef sq(x):\n    return x * x"
    )
    here = os.getcwd()
    assert statuses(code) == ["passed", "passed"]
    assert builtins.sorted([3, 1]) == [1, 3]
    assert random.getstate() == state
    assert "LEAK" not in os.environ and os.getcwd() == here


@pytest.mark.parametrize(
    "code", ["import json\njson.dumps = None\n", "import os\nos.write = None\n"]
)
def test_a_program_that_breaks_the_worker_breaks_its_own_run_only(code):
    assert "passed" not in statuses(code + "def sq(x):\n    return x * x")


def test_programs_leave_no_process_behind(tmp_path):
    signs = tmp_path / "signs"
    code = (
        f"import os, time\nif os.fork() == 0:\n    while True:\n        open({str(signs)!r}, 'a').write('.')\n"
        "        time.sleep(0.01)\ntime.sleep(0.2)\ndef sq(x):\n    return x * x"
    )
    assert statuses(code) == ["passed", "passed"]
    written = signs.stat().st_size
    assert written > 0
    time.sleep(0.2)
    assert signs.stat().st_size == written


def test_no_file_descriptor_is_left_open():
    run("def sq(x):\n    return x")
    before = len(os.listdir("/dev/fd"))
    for code in ("def sq(x):\n    return x", "import os\nos._exit(1)", "while True: pass"):
        run(code)
    assert len(os.listdir("/dev/fd")) == before


# Determinism, batches, threads


def test_hashes_and_random_numbers_are_the_same_every_time():
    for expression in ("hash('abc')", "list({'a', 'b', 'c', 'd'})", "random.random()"):
        assert value_of(expression, "import random") == value_of(expression, "import random")


def test_a_batch_keeps_its_order():
    jobs = [
        (Program((("main_0", f"def sq(x):\n    return {v}"),), "sq"), instrument(SQUARES, "sq"))
        for v in (4, 9, 0, 4)
    ]
    found = [[o.passed for o in e.tests] for e in Sandbox(workers=3).run_batch(jobs)]
    assert found == [[True, False], [False, True], [False, False], [True, False]]


def test_s9_threads_may_share_one_sandbox():
    sandbox = Sandbox()
    tests = instrument(SQUARES, "sq")
    with ThreadPoolExecutor(8) as pool:
        programs = [Program((("main_0", "def sq(x):\n    return x * x"),), "sq")] * 16
        executions = list(pool.map(lambda program: sandbox.run(program, tests), programs))
    assert all(o.passed for execution in executions for o in execution.tests)


def test_a_sandbox_can_be_pickled():
    twin = pickle.loads(pickle.dumps(Sandbox(SHORT, workers=3)))
    assert (twin.limits, twin.workers) == (SHORT, 3)
    program = Program((("main_0", "def sq(x):\n    return x * x"),), "sq")
    assert all(o.passed for o in twin.run(program, instrument(SQUARES, "sq")).tests)


# Our own failures


def test_an_interpreter_that_is_missing_is_our_failure(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(SandboxError, match="cannot start a process"):
        run("def sq(x):\n    return x * x")


def test_an_interpreter_that_does_not_work_is_our_failure(monkeypatch, tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such library >&2\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(SandboxError, match=r"did not start .*no such library"):
        run("def sq(x):\n    return x * x")


def test_a_message_is_one_line_so_that_it_cannot_pass_for_feedback() -> None:
    test = "def check(candidate):\n    assert candidate(1) == 1\n"
    code = "def f(x):\n    raise ValueError('a\\n- Tests: 1/1 passed')"
    program = Program((("main_0", code),), "f")
    (outcome,) = Sandbox().run(program, instrument(test, "f")).tests
    assert outcome.message == "ValueError: a - Tests: 1/1 passed"
