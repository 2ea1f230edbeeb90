"""Programs, sandboxes and callers for the tests of the sandbox."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from llm_decpomdp.envs.sandbox import Execution, Limits, Program, Sandbox, instrument
from tests.support.processes import ROOT
from tests.support.programs import SQUARE, SQUARES

SHORT = Limits(load_seconds=0.7, test_seconds=0.7)
CHANNEL = """
import fcntl, json, os, stat, time
for number in range(3, 64):
    try:
        mode = os.fstat(number).st_mode
    except OSError:
        continue
    if stat.S_ISSOCK(mode):
        SOCKET = number

def send(*message):
    data = json.dumps(message).encode()
    data = len(data).to_bytes(4, "big") + data
    while data:
        data = data[os.write(SOCKET, data):]
"""
"""Code of a program that speaks the language of the one around it."""
WRONG = {
    "wrong": "def sq(x):\n    return x * x + (x == 3)",
    "raises": "def sq(x):\n    if x == 3:\n        raise KeyError(x)\n    return x * x",
    "hangs": "def sq(x):\n    while x == 3:\n        pass\n    return x * x",
    "ends": "import os\ndef sq(x):\n    x == 3 and os._exit(1)\n    return x * x",
    "counts": "seen = []\ndef sq(x):\n    seen.append(x)\n    return x * x if len(seen) < 3 else 0",
}
"""Programs that square all numbers but 3, or not the third one."""
SLOW = "import time\ndef sq(x):\n    time.sleep(0.2)\n    return x * x"
TESTS = instrument(SQUARES, "sq")
PASSED = ["passed", "passed"]
HANG_ON_TWO = "def sq(x):\n    while x == 2:\n        pass\n    return x * x"


def program(code: str, entry_point: str = "sq") -> Program:
    return Program((("main_0", code),), entry_point)


def run(
    code: str,
    test: str = SQUARES,
    limits: Limits = SHORT,
    split: bool = True,
    **settings: Any,
) -> Execution:
    """Run a program; no result of another test is remembered."""
    sandbox = Sandbox(limits, **{"cache_size": 0, **settings})
    return sandbox.run(program(code), instrument(test, "sq", split))


def statuses(code: str, test: str = SQUARES, limits: Limits = SHORT, **settings: Any) -> list[str]:
    return [outcome.status for outcome in run(code, test, limits, **settings).tests]


def statuses_in(sandbox: Sandbox, code: str = SQUARE, test: str = SQUARES) -> list[str]:
    execution = sandbox.run(program(code), instrument(test, "sq"))
    return [outcome.status for outcome in execution.tests]


def start_worker(sandbox: Sandbox) -> int:
    """Start the only worker of a sandbox anew, and return its process."""
    sandbox.close()
    before = workers_of(os.getpid())
    assert statuses_in(sandbox) == PASSED
    (worker,) = workers_of(os.getpid()) - before
    return worker


def value_of(expression: str, around: str = "") -> str:
    """Evaluate an expression inside the sandbox; return its `repr`."""
    code = f"{around}\ndef sq(x):\n    raise ValueError(repr({expression}))"
    return run(code).tests[0].message.removeprefix("ValueError: ")


# Callers: processes of their own that use the sandbox, and may come to harm

PRELUDE = """
import os, resource, signal, sys, threading, time, warnings
from llm_decpomdp.envs.sandbox import Limits, Sandbox, SandboxError, instrument
from tests.envs.sandboxed import HANG_ON_TWO, PASSED, SHORT, TESTS, program, workers_of
from tests.envs.sandboxed import statuses_in as statuses
from tests.support.programs import SQUARE, SQUARES, check
"""


def start_caller(code: str, **environment: str) -> subprocess.Popen[str]:
    """Start a process that runs `code`; it is the leader of its own session."""
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        start_new_session=True,
    )


def run_caller(code: str, seconds: float = 120.0, **environment: str) -> str:
    """Return the output of a process that runs `code`; it must end by itself and leave no worker behind."""
    with start_caller(code, **environment) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == 0, errors
    return output


def processes() -> dict[int, tuple[int, int, str]]:
    """Return parent, session and command of every process that lives."""
    table = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            command = (path / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue  # it has ended
        if fields[0] not in "ZX":
            table[int(path.name)] = (int(fields[1]), int(fields[3]), command)
    return table


def workers_of(process: int) -> set[int]:
    """The evaluators of a process; each leads a session that all processes of its worker belong to."""
    return {
        number
        for number, (parent, _, command) in processes().items()
        if parent == process and "sandbox/worker/main.py" in command
    }


def zygote_of(worker: int) -> int:
    """The zygote of a worker."""
    (zygote,) = (number for number, (parent, *_) in processes().items() if parent == worker)
    return zygote


def end_within(seconds: float, workers: set[int]) -> bool:
    """True if all processes of workers end in time."""
    deadline = time.monotonic() + seconds
    while any(session in workers for _, session, _ in processes().values()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


TELLS_ITS_RUNS = "import os\ndef sq(x):\n    raise ValueError(os.urandom(8).hex())"
"""A program whose result is another one each time that it runs."""


def message_of(sandbox: Sandbox, code: str = TELLS_ITS_RUNS, limits: Limits | None = None) -> str:
    """What the first test of a program says."""
    return sandbox.run(program(code), instrument(SQUARES, "sq"), limits).tests[0].message
