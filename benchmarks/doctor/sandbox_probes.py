"""Programs that try in the sandbox what they must not be able to do, and their results.

Every attempt is harmless where it succeeds: signal 0, a file that is opened and left as it is, a process that
ends at once.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from llm_decpomdp.envs.sandbox import Execution, Program, Sandbox, instrument

MAX_REPORT = 2**16
"""Longest report of the program, in bytes."""

PROBES = """
import errno, json, os, socket

def tried(action):
    try:
        value = action()
    except OSError as error:
        return [True, errno.errorcode.get(error.errno, str(error))]
    except MemoryError:
        return [True, "MemoryError"]
    return [False, "works" if value is None else str(value)]

def connect():
    with socket.socket() as plug:
        plug.settimeout(1.0)
        try:
            plug.connect(("127.0.0.1", 9))
        except ConnectionRefusedError:
            pass  # somebody was there to refuse

def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)

def execute():
    try:
        os.execv("/no such program", ["probe"])
    except FileNotFoundError:
        pass  # it was looked for

def read(path):
    with open(path, "rb") as file:
        file.read(1)

def write_here():
    with open("probe", "w") as file:
        file.write("x")
    os.unlink("probe")

def new_privileges():
    with open("/proc/self/status") as status:
        return dict(line.split(":", 1) for line in status)["NoNewPrivs"].strip()

def probe(given):
    own = given["own file"]
    attempts = {
        "socket()": lambda: socket.socket().close(),
        "connect()": connect,
        "fork()": fork,
        "exec()": execute,
        "chmod()": lambda: os.chmod(own, 0o600),
        "kill()": lambda: os.kill(given["pid"], 0),
        "chroot()": lambda: os.chroot("/"),
        "/etc/passwd": lambda: read("/etc/passwd"),
        "a file of yours": lambda: read(own),
        "writing to it": lambda: os.close(os.open(own, os.O_WRONLY)),
        "site-packages": lambda: read(given["package"]),
        "your environment": lambda: read(f"/proc/{given['pid']}/environ"),
        "list of processes": lambda: len(list(filter(str.isdigit, os.listdir("/proc")))),
        "opening /proc/self/mem": lambda: os.close(os.open("/proc/self/mem", os.O_RDONLY)),
        "NoNewPrivs": new_privileges,
        "writing in its folder": write_here,
        "1 GiB of memory": lambda: bytearray(2**30) and None,
    }
    facts = {
        "variables": ", ".join(sorted(os.environ)),
        "descriptors": sum(not tried(lambda: os.fstat(n))[0] for n in range(256)),
        "user": os.geteuid(),
        "process": os.getpid(),
        "folder": os.getcwd(),
    }
    print(json.dumps([{name: tried(attempt) for name, attempt in attempts.items()}, facts]))
"""
"""Program that prints the result of each attempt, and facts about its process."""

TEST = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 9\n"
HONEST = "def square(x):\n    return x * x\n"

FORGERIES = {
    "an object that equals everything": """
class Anything(int):
    def __eq__(self, other):
        return True
    __hash__ = int.__hash__
def square(x):
    return Anything()
""",
    "an exit with status 0": "import os\ndef square(x):\n    os._exit(0)\n",
    "a report of its own": """
import sys
def forged(self, test, *_):
    self.reached[test] = 1
    self.send("test", test, None)
def square(x):
    frame = sys._getframe()
    while frame:
        if "__record__" in frame.f_globals:
            type(frame.f_globals["__record__"]).__call__ = forged
        frame = frame.f_back
""",
}
"""Programs without the answer; where they share an interpreter with the tests, the first and the last pass."""


@dataclass(frozen=True)
class Attempt:
    """The result of an attempt of a program."""

    refused: bool
    text: str
    """Name of the error, "works", or the value that the attempt returned."""


@dataclass(frozen=True)
class ProbeResults:
    """The report of the program in the sandbox."""

    attempts: Mapping[str, Attempt]
    facts: Mapping[str, int | str]
    """Names of `variables` of the environment, number of open `descriptors`, `user`, number of the `process`, and
    `folder`."""


def run_probes(sandbox: Sandbox) -> ProbeResults:
    """Run the program that tries what programs must not be able to do.

    Raises:
        RuntimeError: If it did not come to its end.
        SandboxError: If the sandbox does not work.
    """
    package = find_spec("rich")
    assert package is not None and package.origin is not None
    with tempfile.NamedTemporaryFile(dir=_own_folder(), prefix=".llm-decpomdp-doctor-") as file:
        file.write(b"secret")
        file.flush()
        arguments = {"pid": os.getpid(), "own file": file.name, "package": package.origin}
        tests = instrument(
            f"def check(candidate):\n    assert candidate({arguments!r}) is None", "probe"
        )
        limits = replace(sandbox.limits, output_bytes=MAX_REPORT)
        execution = sandbox.run(Program((("probe", PROBES),), "probe"), tests, limits)
    if not execution.tests[0].passed:
        raise RuntimeError(f"the program that tries things failed: {execution.tests[0].message}")
    attempts, facts = json.loads(execution.output)
    return ProbeResults({name: Attempt(*result) for name, result in attempts.items()}, facts)


def _own_folder() -> Path:
    """Return a folder that the user may write, and that programs do not see replaced by a private one."""
    folders = [Path(os.path.expanduser("~")), Path("/var/tmp"), Path(tempfile.gettempdir())]
    return next(folder for folder in folders if os.access(folder, os.W_OK | os.X_OK))


def forgeries(sandbox: Sandbox, split: bool = True) -> list[str]:
    """Return the names of forgeries that pass, and a line if the honest program does not."""
    tests = instrument(TEST, "square", split=split)

    def passes(code: str) -> bool:
        execution: Execution = sandbox.run(Program((("main_0", code),), "square"), tests)
        return all(test.passed for test in execution.tests)

    fooled = [name for name, code in FORGERIES.items() if passes(code)]
    return fooled if passes(HONEST) else [*fooled, "an honest program does not pass"]
