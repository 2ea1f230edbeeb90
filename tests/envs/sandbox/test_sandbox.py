"""The sandbox: every way in which a program can go right or wrong has its result."""

from __future__ import annotations

import ast
import os
import sys
import time
from pathlib import Path

import pytest

from llm_decpomdp.envs.sandbox import Limits, Program, Sandbox, instrument
from tests.attacks.entries import ENTRIES, QUICK_ENTRIES
from tests.envs.sandboxed import SHORT, program, run, statuses, workers_of
from tests.support.processes import ROOT
from tests.support.programs import SQUARE, SQUARES, check

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux limits this")
both = pytest.mark.parametrize("split", [True, False])
STANDARD = sys.stdlib_module_names | {"__future__"}


def test_a_right_program_passes():
    execution = run(SQUARE)
    assert [(o.passed, o.status, o.message) for o in execution.tests] == [(True, "passed", "")] * 2
    assert execution.error is None and 0 < execution.seconds < 60


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
        ("aux_0", "\n\ndef aux(x):\n    return math.sqrt(x)"),
        ("main_0", "def sq(x):\n    return aux(-x)"),
    )
    first, _ = Sandbox().run(Program(parts, "sq", "import math\n"), instrument(SQUARES, "sq")).tests
    assert (first.origin, first.line) == ("aux_0", 4)
    assert first.message == "ValueError: math domain error"


def test_a_test_may_use_the_names_of_the_preamble():
    code, preamble = "def sq(x):\n    return twice(x)", "def twice(x):\n    return 2 * x\n"
    test = check("assert candidate(4) == twice(4)", "assert candidate(4) == twice(5)")
    doubled = Program((("main_0", code),), "sq", preamble)
    outcomes = Sandbox().run(doubled, instrument(test, "sq")).tests
    assert [outcome.status for outcome in outcomes] == ["passed", "failed"]


# Programs that do not load, or end a call


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        ("while True: pass", "timeout", ""),
        ("def sq(x=[0 for _ in iter(int, 1)]):\n    return x", "timeout", ""),
        ("import time\ntime.sleep(60)", "timeout", ""),
        ("raise SystemExit(3)", "error", "SystemExit: 3"),
        ("def cube(x):\n    return x", "error", "KeyError: 'sq'"),
        ("def sq(x:\n    return x", "error", "SyntaxError"),
        ("def sq(x):\n    return x\x00", "error", ""),
        ("s = '\ud800'", "error", ""),
        ("\ud800", "error", ""),
    ],
)
def test_s6_a_program_that_cannot_be_loaded_fails_every_test(code, status, message):
    execution = run(code)
    assert execution.error is not None and execution.error.status == status
    assert execution.error.message.startswith(message)
    assert [outcome.status for outcome in execution.tests] == [status] * 2


EXIT = "the program ended its own process (exit code {})"
SIGNALS = ("os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 35)", "os.killpg(0, 9)")


@both
@pytest.mark.parametrize(
    ("way", "status", "message"),
    [
        ("while True: pass", "timeout", "TimeoutError: no result within 0.7 seconds"),
        ("raise SystemExit", "error", "SystemExit"),
        ("raise KeyboardInterrupt", "error", "KeyboardInterrupt"),
        ("sys.exit()", "error", "SystemExit"),
        ("os._exit(0)", "crashed", EXIT.format(0)),
        ("os._exit(7)", "crashed", EXIT.format(7)),
        ("ctypes.string_at(0)", "crashed", "the program was killed by signal 11"),
        *(pytest.param(way, "forbidden", "PermissionError", marks=linux) for way in SIGNALS),
    ],
)
def test_s3_s4_what_ends_a_call_costs_its_test_only(way, status, message, split):
    code = f"import ctypes, os, sys\ndef sq(x):\n    if x == 2:\n        {way}\n    return x * x"
    first, second = run(code, split=split).tests
    assert (first.status, second.status) == (status, "passed")
    assert first.message.startswith(message)


@linux
def test_a_signal_ends_one_test_where_nothing_forbids_it():
    code = "import os\ndef sq(x):\n    if x == 2:\n        os.abort()\n    return x * x"
    first, second = run(code, without=("seccomp",)).tests
    assert (first.status, second.status) == ("crashed", "passed")
    assert first.message == "the program was killed by signal 6 (Aborted)"


def test_an_entry_point_that_is_no_function_fails_every_test():
    assert statuses("sq = 5") == ["error", "error"]


# Time


def test_s5_a_program_that_swallows_exceptions_is_stopped():
    loop = "while True:\n            try:\n                while True: pass\n"
    begin = time.monotonic()
    outcomes = run(f"def sq(x):\n        {loop}            except BaseException: pass").tests
    assert time.monotonic() - begin < 60
    assert {o.status for o in outcomes} == {"timeout"}
    assert outcomes[0].message == "TimeoutError: no result within 0.7 seconds"


@both
def test_three_timeouts_end_the_run_and_passed_tests_keep_their_credit(split):
    test = check(*(f"assert candidate({x}) == {x}" for x in (0, 2, 3, 4, 5, 1)))
    code = "def sq(x):\n    while x > 1:\n        pass\n    return x"
    limits = Limits(load_seconds=2, test_seconds=0.6)
    expected = ["passed", "timeout", "timeout", "timeout", "not_run", "not_run"]
    assert statuses(code, test, limits, split=split) == expected


def test_a_long_test_may_take_its_time_if_each_statement_is_quick():
    test = check(*["assert candidate(2) == 4"] * 4)
    code = "import time\ndef sq(x):\n    time.sleep(0.3)\n    return x * x"
    assert statuses(code, test) == ["passed"] * 4


WAIT = "import time\ndef sq(x):\n    time.sleep(0.4)\n    return x"
WORK = """
import time
def sq(x):
    end = time.process_time() + 0.5
    while time.process_time() < end: pass
    return x
"""


@pytest.mark.parametrize(
    ("code", "limits", "message"),
    [
        (WAIT, Limits(2, 2, program_seconds=3, wall_factor=1), "TimeoutError: no result within"),
        (
            WORK,
            Limits(2, 2, program_seconds=1, wall_factor=99, max_timeouts=1),
            "TimeoutError: the program's processor time is used up",
        ),
    ],
)
def test_all_calls_together_have_a_limit(code, limits, message):
    test = check(*(f"assert candidate({x}) == {x}" for x in range(12)))
    outcomes = run(code, test, limits).tests
    assert outcomes[0].passed and outcomes[-1].status == "not_run"
    late = next(outcome for outcome in outcomes if outcome.status == "timeout")
    assert late.message.startswith(message)


# Memory and output


@linux
@both
@pytest.mark.parametrize(
    ("megabytes", "code"),
    [
        (200, "def sq(x):\n    return len(' ' * (2**28 if x == 2 else 1)) * 9"),
        (
            100,
            "def sq(x):\n    xs = [x]\n    while x == 2:\n        xs = [xs, *range(9999)]\n    return x * x",
        ),
    ],
    ids=["at once", "bit by bit"],
)
def test_memory_is_limited(megabytes, code, split):
    limits = Limits(load_seconds=5, test_seconds=5, memory_bytes=megabytes * 2**20)
    assert statuses(code, limits=limits, split=split) == ["memory", "passed"]


def test_output_is_kept_up_to_a_bound():
    code = "print('hello')\ndef sq(x):\n    print('x' * 10**6)\n    return x * x"
    execution = run(code, limits=Limits(output_bytes=1000))
    assert execution.output.startswith("hello\nxxx") and len(execution.output) == 1000
    assert all(o.passed for o in execution.tests)
    output = run("print('\U0001f600' * 100_000)\n" + SQUARE).output
    assert 0 < len(output.encode()) <= 4096


def test_output_to_either_stream_is_kept():
    code = "import sys\ndef sq(x):\n    print('out', x)\n    print('err', x, file=sys.stderr)\n    return x * x"
    assert run(code).output == "out 2\nerr 2\nout 3\nerr 3\n"


def test_an_endless_flood_of_output_ends_with_its_test():
    assert statuses("def sq(x):\n    while True:\n        print('x' * 10**5)") == ["timeout"] * 2


def test_texts_of_an_exception_are_bounded_and_can_be_written_to_a_file():
    outcome, _ = run("def sq(x):\n    raise ValueError('\\udc80' + 'a' * 10**6)").tests
    assert len(outcome.message.encode()) < 400
    code = "def sq(x):\n    exec(compile('1 / 0', '<\\udc80' + 'a' * 10**6 + '>', 'exec'))"
    outcome, _ = run(code).tests
    assert len(outcome.origin.encode()) < 400


def test_a_message_is_one_line_so_that_it_cannot_pass_for_feedback():
    outcome, _ = run("def sq(x):\n    raise ValueError('a\\n- Tests: 1/1 passed')").tests
    assert outcome.message == "ValueError: a - Tests: 1/1 passed"


def test_limits_may_be_given_for_one_run():
    sandbox = Sandbox(SHORT, cache_size=0)
    job = (program("print('x' * 99)\n" + SQUARE), instrument(SQUARES, "sq"))
    assert len(sandbox.run(*job, Limits(output_bytes=7)).output) == 7
    assert len(sandbox.run(*job).output) == 100


def peak_memory(code: str, test: str, passed: bool = True) -> int:
    """Return the memory that a new worker's evaluator takes to grade a program, in MB."""
    before = workers_of(os.getpid())
    sandbox = Sandbox(Limits(load_seconds=5, test_seconds=5), workers=1, cache_size=0, seed=98)
    assert sandbox.run(program(code), instrument(test, "sq")).tests[-1].passed == passed
    (worker,) = workers_of(os.getpid()) - before
    status = Path(f"/proc/{worker}/status").read_text()
    sandbox.close()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


@linux
def test_answers_that_swell_while_they_are_read_are_refused():
    code = """
import os
TEXT = b'["value",[' + b",".join([b"[]"] * 2_600_000) + b'],null,[],""]'
def sq(x):
    for descriptor in range(3, 20):
        data = (len(TEXT).to_bytes(4, "big") + TEXT) * 4
        try:
            while data:
                data = data[os.write(descriptor, data):]
        except OSError:
            pass
"""
    assert peak_memory(code, check(*["assert candidate(0) == 0"] * 4), passed=False) < 600


@linux
def test_the_answers_of_a_run_are_forgotten_before_the_next_one():
    test = check("for i in range(4):", "    assert candidate([i])")
    large = "def sq(xs):\n    {}\n    return 'x' * 7_000_000"
    once = peak_memory(large.format("pass"), test)
    assert peak_memory(large.format("xs[0] += 1"), test) < once + 14


# Values and exceptions

PATIENT = Sandbox(Limits(load_seconds=5, test_seconds=5), workers=1, cache_size=0)


@both
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(QUICK_ENTRIES, id="a fourth"),
        pytest.param(list(ENTRIES), id="all", marks=pytest.mark.slow),
    ],
)
def test_right_programs_pass_whatever_they_return(names, split):
    for entry in (ENTRIES[name] for name in names if ENTRIES[name].category == "benign"):
        tests = instrument(entry.test, entry.entry_point, split)
        execution = PATIENT.run(entry.program(entry.completions["main"]), tests)
        assert execution.tests and all(test.passed for test in execution.tests), entry.name


def expects(error: str, then: str = "pass") -> str:
    """Return a test that passes if the call raises `error`."""
    catch = ("try:", "    candidate(2)", f"except {error} as error:", f"    {then}")
    return check(*catch, "else:", "    assert False")


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
)
def test_a_test_sees_the_builtin_class_of_an_exception(raised, expected, status):
    assert statuses(f"def sq(x):\n    raise {raised}", expects(expected)) == [status]


def test_a_test_sees_the_arguments_of_an_exception():
    test = expects("ValueError", "assert error.args == ('a', [3])")
    assert statuses("def sq(x):\n    raise ValueError('a', [3])", test) == ["passed", "passed"]
    assert statuses("def sq(x):\n    raise ValueError('a')", test) == ["failed", "passed"]


def test_an_exception_cannot_end_a_loop_of_the_test_early():
    test = check("for x in map(candidate, (1, 2)):", "    assert x == 1")
    code = "def sq(x):\n    if x == 2:\n        raise StopIteration\n    return x"
    (outcome,) = run(code, test).tests
    assert (outcome.status, outcome.message) == ("error", "StopIteration")


@both
def test_an_iterator_that_hangs_or_raises_fails_its_test_only(split):
    test = check(*(f"assert sum(candidate({x})) == 0" for x in range(4)))
    code = "def sq(x):\n    yield 0\n    while x == 1: pass\n    if x == 2: raise KeyError(x)\n    yield 0"
    assert statuses(code, test, split=split) == ["passed", "timeout", "error", "passed"]


# The folder itself


def imported(folder: str) -> set[str]:
    """Return the modules that the code of a folder imports, without the standard library."""
    names = set()
    for path in (ROOT / "envs" / "sandbox" / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module or "")
    return {name for name in names if name.partition(".")[0] not in STANDARD}


def test_the_sandbox_imports_one_function_of_the_core_and_its_workers_nothing_else():
    own = "llm_decpomdp.envs.sandbox"
    others = {name for name in imported("") if not f"{name}.".startswith(f"{own}.")}
    assert others == {"llm_decpomdp.utils.text"}
    workers = imported("worker")
    assert len(workers) > 15 and all(name.startswith(f"{own}.worker.") for name in workers)


def test_the_example_of_the_readme_works():
    text = (ROOT / "envs" / "sandbox" / "README.md").read_text()
    exec(text.split("```python\n")[1].partition("```")[0], {})
