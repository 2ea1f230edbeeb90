"""The sandbox: every way in which a program can go right or wrong has its verdict."""

from __future__ import annotations

import ast
import sys
import time

import pytest

from llm_decpomdp.envs.sandbox import Limits, Program, Sandbox, instrument
from tests.envs.sandboxed import HANG_ON_TWO, SHORT, run, statuses
from tests.support.processes import ROOT
from tests.support.programs import SQUARE, SQUARES, check

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux limits this")
STANDARD = sys.stdlib_module_names | {"__future__"}


def test_a_right_program_passes():
    execution = run(SQUARE)
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
        ("aux_0", "\n\ndef aux(x):\n    return math.sqrt(x)"),
        ("main_0", "def sq(x):\n    return aux(-x)"),
    )
    team = Program(parts, "sq", preamble="import math\n")
    first, _ = Sandbox().run(team, instrument(SQUARES, "sq")).tests
    assert (first.origin, first.line) == ("aux_0", 4)
    assert first.message == "ValueError: math domain error"


def test_a_test_may_use_the_names_of_the_preamble():
    doubled = Program(
        (("main_0", "def sq(x):\n    return twice(x)"),), "sq", "def twice(x):\n    return 2 * x\n"
    )
    test = check("assert candidate(4) == twice(4)", "assert candidate(4) == twice(5)")
    outcomes = Sandbox().run(doubled, instrument(test, "sq")).tests
    assert [outcome.status for outcome in outcomes] == ["passed", "failed"]


# Time


def test_s5_a_program_that_swallows_exceptions_is_stopped():
    code = (
        "def sq(x):\n    while True:\n        try:\n            while True: pass\n"
        "        except BaseException:\n            pass"
    )
    begin = time.monotonic()
    outcomes = run(code).tests
    assert time.monotonic() - begin < 20
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


@pytest.mark.parametrize("split", [True, False])
def test_a_hanging_test_costs_only_itself(split):
    assert statuses(HANG_ON_TWO, split=split) == ["timeout", "passed"]


@pytest.mark.parametrize("split", [True, False])
def test_three_timeouts_end_the_run_and_passed_tests_keep_their_credit(split):
    test = check(*(f"assert candidate({x}) == {x}" for x in (0, 2, 3, 4, 5, 1)))
    code = "def sq(x):\n    while x > 1:\n        pass\n    return x"
    limits = Limits(load_seconds=2, test_seconds=0.6)
    verdicts = ["passed", "timeout", "timeout", "timeout", "not_run", "not_run"]
    assert statuses(code, test, limits, split=split) == verdicts


def test_a_long_test_may_take_its_time_if_each_statement_is_quick():
    test = check(*["assert candidate(2) == 4"] * 4)
    code = "import time\ndef sq(x):\n    time.sleep(0.3)\n    return x * x"
    assert statuses(code, test) == ["passed"] * 4


def test_all_calls_together_have_a_limit():
    test = check(*(f"assert candidate({x}) == {x}" for x in range(12)))
    code = "import time\ndef sq(x):\n    time.sleep(0.4)\n    return x"
    limits = Limits(load_seconds=2, test_seconds=2, program_seconds=3, wall_factor=1)
    outcomes = statuses(code, test, limits)
    assert outcomes[0] == "passed" and "timeout" in outcomes and outcomes[-1] == "not_run"


def test_the_processor_time_of_all_calls_together_has_a_limit():
    test = check(*(f"assert candidate({x}) == {x}" for x in range(8)))
    code = (
        "import time\ndef sq(x):\n    end = time.process_time() + 0.5\n"
        "    while time.process_time() < end:\n        pass\n    return x"
    )
    limits = Limits(
        load_seconds=2, test_seconds=2, program_seconds=1, wall_factor=9, max_timeouts=1
    )
    execution = run(code, test, limits)
    outcomes = [outcome.status for outcome in execution.tests]
    assert outcomes[0] == "passed" and outcomes[-1] == "not_run"
    late = next(outcome for outcome in execution.tests if outcome.status == "timeout")
    assert late.message == "TimeoutError: the program's processor time is used up"


# Ends


@pytest.mark.parametrize("way", ["raise SystemExit", "raise KeyboardInterrupt", "exit_now()"])
@pytest.mark.parametrize("split", [True, False])
def test_s3_leaving_by_an_exception_fails_the_test_only(way, split):
    code = f"import sys\nexit_now = sys.exit\ndef sq(x):\n    if x == 2:\n        {way}\n    return x * x"
    assert statuses(code, split=split) == ["error", "passed"]


def test_s3_leaving_while_loading_fails_every_test():
    execution = run("raise SystemExit(3)")
    assert execution.error is not None and execution.error.message == "SystemExit: 3"
    assert {o.status for o in execution.tests} == {"error"}


@pytest.mark.parametrize("code", ["0", "7"])
@pytest.mark.parametrize("split", [True, False])
def test_s4_ending_the_process_ends_one_test(code, split):
    first, second = run(
        f"import os\ndef sq(x):\n    if x == 2:\n        os._exit({code})\n    return x * x",
        split=split,
    ).tests
    assert (first.status, second.status) == ("crashed", "passed")
    assert first.message == f"the program ended its own process (exit code {code})"


SIGNALS = ["os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 35)", "os.killpg(0, 9)"]


@pytest.mark.parametrize("way", SIGNALS)
@linux
def test_signals_are_forbidden_even_to_the_program_itself(way):
    code = f"import os\ndef sq(x):\n    if x == 2:\n        {way}\n    return x * x"
    first, second = run(code).tests
    assert first.status == "forbidden" and first.message.startswith("PermissionError")
    assert second.passed


@linux
def test_a_signal_ends_one_test_where_nothing_forbids_it():
    code = "import os\ndef sq(x):\n    if x == 2:\n        os.abort()\n    return x * x"
    first, second = run(code, without=("seccomp",)).tests
    assert (first.status, second.status) == ("crashed", "passed")
    assert first.message == "the program was killed by signal 6 (Aborted)"


def test_an_invalid_access_to_memory_is_a_crash():
    code = "import ctypes\ndef sq(x):\n    return ctypes.string_at(0) if x == 2 else x * x"
    first, second = run(code).tests
    assert first.status == "crashed" and "signal 11" in first.message
    assert second.passed


def test_a_function_that_is_missing_or_no_function_fails_every_test():
    execution = run("def cube(x):\n    return x")
    assert execution.error is not None and execution.error.message == "KeyError: 'sq'"
    assert statuses("sq = 5") == ["error", "error"]


def test_code_that_does_not_parse_fails_every_test():
    execution = run("def sq(x:\n    return x")
    assert execution.error is not None and execution.error.message.startswith("SyntaxError")
    assert [outcome.status for outcome in execution.tests] == ["error", "error"]


@pytest.mark.parametrize("code", ["def sq(x):\n    return x\x00", "s = '\ud800'", "\ud800"])
def test_text_that_is_no_python_source_fails_every_test(code):
    execution = run(code)
    assert execution.error is not None and execution.error.status == "error"


# Memory and output


@linux
@pytest.mark.parametrize("split", [True, False])
def test_memory_is_limited(split):
    limits = Limits(load_seconds=5, test_seconds=5, memory_bytes=200 * 2**20)
    code = "def sq(x):\n    return len(' ' * (2**28 if x == 2 else 1)) * 9"
    assert statuses(code, limits=limits, split=split) == ["memory", "passed"]


@linux
def test_memory_that_runs_out_bit_by_bit_is_named():
    limits = Limits(load_seconds=5, test_seconds=5, memory_bytes=100 * 2**20)
    code = "def sq(x):\n    xs = [x]\n    while x == 2:\n        xs = [xs, *range(9999)]\n    return x * x"
    assert statuses(code, limits=limits) == ["memory", "passed"]


def test_what_a_program_prints_is_kept_up_to_a_bound():
    code = "print('hello')\ndef sq(x):\n    print('x' * 10**6)\n    return x * x"
    execution = run(code, limits=Limits(output_bytes=1000))
    assert execution.output.startswith("hello\nxxx") and len(execution.output) == 1000
    assert all(o.passed for o in execution.tests)


def test_what_a_program_writes_to_either_stream_is_kept():
    code = (
        "import sys\ndef sq(x):\n    print('out', x)\n"
        "    print('err', x, file=sys.stderr)\n    return x * x"
    )
    assert run(code).output == "out 2\nerr 2\nout 3\nerr 3\n"


def test_an_endless_flood_of_output_ends_with_its_test():
    assert statuses("def sq(x):\n    while True:\n        print('x' * 10**5)") == ["timeout"] * 2


def test_the_text_of_an_exception_is_bounded_and_can_be_written_to_a_file():
    outcome, _ = run("def sq(x):\n    raise ValueError('\\udc80' + 'a' * 10**6)").tests
    assert len(outcome.message) < 400
    outcome.message.encode()


def test_where_an_exception_came_from_is_bounded_and_can_be_written_to_a_file():
    code = "def sq(x):\n    exec(compile('1 / 0', '<\\udc80' + 'a' * 10**6 + '>', 'exec'))"
    outcome, _ = run(code).tests
    assert len(outcome.origin) < 400
    outcome.origin.encode()


def test_a_message_is_one_line_so_that_it_cannot_pass_for_feedback():
    outcome, _ = run("def sq(x):\n    raise ValueError('a\\n- Tests: 1/1 passed')").tests
    assert outcome.message == "ValueError: a - Tests: 1/1 passed"


def test_a_verdict_that_is_remembered_keeps_little_of_what_the_program_prints():
    output = run("print('\U0001f600' * 100_000)\n" + SQUARE).output
    assert 0 < len(output.encode()) <= 4096


def test_limits_may_be_given_for_one_run():
    sandbox = Sandbox(SHORT, cache_size=0)
    job = (Program((("main_0", "print('x' * 99)\n" + SQUARE),), "sq"), instrument(SQUARES, "sq"))
    assert len(sandbox.run(*job, Limits(output_bytes=7)).output) == 7
    assert len(sandbox.run(*job).output) == 100


# The folder itself


def imported(folder: str) -> set[str]:
    """Names of the modules that the code of a folder imports, without the standard library."""
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
