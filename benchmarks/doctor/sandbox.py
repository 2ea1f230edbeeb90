"""Checks of the sandbox for `llm-decpomdp doctor`: a program tries what each layer of protection must refuse.

Every attempt is harmless if it succeeds: signal 0, a file that is opened and not changed, a process that ends at
once.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from llm_decpomdp.envs.sandbox import Execution, Program, Sandbox, SandboxError, instrument
from llm_decpomdp.envs.sandbox.sandbox import REQUIRED
from llm_decpomdp.envs.sandbox.worker.confinement import landlock, seccomp

SPEED_PROGRAMS = 200
CGROUPS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
GIBIBYTE = 2**30
UPGRADE = "use a newer Linux, or run in a container or virtual machine that holds no credentials"


@dataclass(frozen=True)
class Finding:
    """One line of the examination."""

    ok: bool
    message: str
    remedy: str = ""
    core: bool = False
    """True if nothing works without it."""
    demo: bool = False
    optional: bool = False
    """True if most users do well without it."""
    need: str = ""
    """Name under which `--need` requests it."""
    requested: bool = False
    """True if the environment requests it by a variable."""

    def is_requested(self, needs: Collection[str]) -> bool:
        """Check whether `--need` or a variable requests it; `core` is always requested."""
        by_name = self.need in needs or (self.demo and "demo" in needs)
        return self.core or self.requested or by_name

    @property
    def mark(self) -> str:
        """The state in a word: `ok`, `missing` or `optional`."""
        return "ok" if self.ok else "optional" if self.optional else "missing"


@dataclass(frozen=True)
class Layer:
    """The purpose of a layer of protection."""

    loss: str
    remedy: str = ""
    """The remedy for its absence; empty where the reason says it."""
    stops: tuple[str, ...] = ()
    """Attempts that must fail while it is on."""
    shows: tuple[str, ...] = ()


LAYERS = {
    "namespaces": Layer(
        "programs see the system's network and processes, as far as seccomp and Landlock let them",
        stops=("connect()",),
    ),
    "private folder": Layer(
        "programs that write files of their own fail", shows=("writing in its folder",)
    ),
    "no new privileges": Layer(
        "seccomp and Landlock cannot be on", UPGRADE, shows=("exec()", "NoNewPrivs")
    ),
    "landlock": Layer(
        "programs can read what you can read, the data's answers included",
        f"Linux 5.13 or later with landlock in /sys/kernel/security/lsm: {UPGRADE}",
        stops=(
            *("/etc/passwd", "a file of yours", "writing to it", "site-packages"),
            *("your environment", "list of processes"),
        ),
    ),
    "no capabilities": Layer("programs started by root keep its rights", stops=("chroot()",)),
    "not dumpable": Layer(
        "without seccomp and Landlock, programs can look into the memory of the evaluator",
        UPGRADE,
        shows=("opening /proc/self/mem",),
    ),
    "seccomp": Layer(
        "programs can start processes, change the attributes of your files, and use the network "
        "unless namespaces are on",
        UPGRADE,
        stops=("socket()", "connect()", "fork()", "exec()", "chmod()", "kill()"),
    ),
    "limits": Layer("one program can use up the memory", stops=("1 GiB of memory",)),
}


def examine_sandbox(sandbox: Sandbox) -> Iterator[Finding]:
    """Try out each layer of protection of a sandbox without a cache, and judge the whole."""
    try:
        layers = sandbox.layers()
        probe = run_probes(sandbox)
        fooled = forgeries(sandbox)
    except (SandboxError, RuntimeError) as error:
        yield Finding(False, f"sandbox: {error}", core=True)
        return
    findings = [_layer(name, reason, probe) for name, reason in layers.items()]
    yield from findings
    names, descriptors = str(probe.facts["variables"]), probe.facts["descriptors"]
    message = f"sandbox: a program sees {descriptors} open descriptors and the variables {names or '(none)'}"
    yield Finding(not names, message, core=True)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        yield _root(layers, probe)
    # Programs must not forge the results of tests, whatever layers are on.
    if fooled:
        remedy = "train with no reward from here, and report this: see docs/security.md"
        message = f"sandbox: reward-safe: no ({'; '.join(fooled)})"
        yield Finding(False, message, remedy, core=True)
    else:
        message = "sandbox: reward-safe: yes (the tests run in a process of their own)"
        yield Finding(True, message)
    yield _host_safe(layers, broken=any(finding.core for finding in findings))
    gibibytes = sandbox.limits.memory_bytes / GIBIBYTE
    message = f"{sandbox.workers} workers x {gibibytes:g} GiB = {sandbox.workers * gibibytes:g} GiB"
    yield Finding(True, f"sandbox: programs use at most {message} of memory at a time")
    yield _cgroup()
    yield _speed(sandbox)


def _layer(name: str, reason: str, probe: ProbeResults) -> Finding:
    """Check one layer: it must stop what it is there to stop, if it is reported as on."""
    layer = LAYERS[name]
    attempts = [*layer.stops, *layer.shows]
    results = ", ".join(f"{attempt} {probe.attempts[attempt].text}" for attempt in attempts)
    if reason:
        message = f"sandbox: {name}: {reason}. Lost: {layer.loss}. Tried: {results}"
        return Finding(False, message, layer.remedy)
    open_ways = ", ".join(way for way in layer.stops if not probe.attempts[way].refused)
    if open_ways:
        message = f"sandbox: {name} seems to be on, but a program succeeded at {open_ways}"
        remedy = "run no program that you do not trust here, and report this: see docs/security.md"
        return Finding(False, message, remedy, core=True)
    writable = not probe.attempts["writing in its folder"].refused
    calls = seccomp.allowed_calls("candidate", writable, os.uname().machine)
    details = {
        "landlock": f" (ABI {landlock.abi()})",
        "seccomp": f" ({len(calls)} system calls allowed)",
        "namespaces": f" (user {probe.facts['user']}, process number {probe.facts['process']})",
        "private folder": f" ({probe.facts['folder']})",
    }
    return Finding(True, f"sandbox: {name}{details.get(name, '')}: {results}")


def _root(layers: Mapping[str, str], probe: ProbeResults) -> Finding:
    user = probe.facts["user"]
    message = f"sandbox: you are root; programs run as user {user}"
    remedy = "run as an ordinary user"
    if layers["landlock"]:
        message += ", but every file of root, keys and /etc/shadow included, is open to them"
        return Finding(False, message + ": Landlock is off", remedy)
    if layers["namespaces"]:
        message += " without root's capabilities: "
        message += "Landlock and seccomp alone keep them from your files"
        return Finding(False, message, remedy)
    message += " and have none of your rights; to files they still are root's, so only Landlock keeps them out"
    return Finding(True, message)


def _host_safe(layers: Mapping[str, str], broken: bool) -> Finding:
    missing = [name for name in REQUIRED if layers[name]]
    if not missing and not broken:
        return Finding(True, f"sandbox: host-safe: yes ({', '.join(REQUIRED)})")
    reason = f"without {', '.join(missing)}" if missing else "a layer does not hold"
    remedy = "run models that you do not trust in a container or virtual machine "
    remedy += "without credentials"
    return Finding(False, f"sandbox: host-safe: no ({reason})", remedy, need="host-safe")


def _cgroup() -> Finding:
    limit = memory_limit()
    if limit is not None:
        size = f"{limit / GIBIBYTE:.1f} GiB"
        return Finding(True, f"sandbox: cgroup v2 limits this process and its children to {size}")
    remedy = "systemd-run --user --scope -p MemoryMax=8G llm-decpomdp train ..."
    if shutil.which("systemd-run") is None:
        remedy = "a limit of the container, as in docker run --memory 8g"
    message = "sandbox: cgroup v2 sets no limit on all memory together"
    return Finding(False, message, remedy, optional=True)


def memory_limit(membership: Path = Path("/proc/self/cgroup")) -> int | None:
    """Return the lowest limit on memory that cgroup v2 sets on this process, in bytes; `None` without one."""
    if not membership.exists():
        return None
    lines = membership.read_text(encoding="utf-8").splitlines()
    limits = []
    # Lines of version 1 have a number of a hierarchy and names instead of `0::`.
    for group in (line[3:].strip("/") for line in lines if line.startswith("0::")):
        for root in CGROUPS:
            # A limit of any parent holds as well.
            for folder in (root / group, *(root / group).parents):
                file = folder / "memory.max"
                if folder.is_relative_to(root) and file.exists():
                    text = file.read_text(encoding="utf-8").strip()
                    limits += [] if text == "max" else [int(text)]
    return min(limits, default=None)


def _speed(sandbox: Sandbox) -> Finding:
    tests = instrument(TEST, "square")
    # Different texts, since equal programs run once.
    codes = [f"{HONEST}# {number}\n" for number in range(SPEED_PROGRAMS)]
    begin = time.monotonic()
    sandbox.run_batch([(Program((("main_0", code),), "square"), tests) for code in codes])
    rate = SPEED_PROGRAMS / (time.monotonic() - begin)
    message = f"{rate:.0f} programs/s (a batch of {SPEED_PROGRAMS} trivial ones, measured just now)"
    return Finding(True, f"sandbox: {message}")


# What a program can do

MAX_REPORT = 2**16  # longest report of the program, in bytes

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


class Attempt(NamedTuple):
    """The result of an attempt of a program."""

    refused: bool
    text: str
    """Name of the error, "works", or the value that the attempt returned."""


class ProbeResults(NamedTuple):
    """The report of the program in the sandbox."""

    attempts: dict[str, Attempt]
    facts: Mapping[str, int | str]
    """Names of `variables` of the environment, number of open `descriptors`, `user`, number of the `process`, and
    `folder`."""


def run_probes(sandbox: Sandbox) -> ProbeResults:
    """Run the program that tries forbidden actions; raises `RuntimeError` if it did not come to its end."""
    package = find_spec("rich")
    assert package is not None and package.origin is not None
    # A folder that the user may write, and that programs do not see replaced by a private one.
    folders = [Path(os.path.expanduser("~")), Path("/var/tmp"), Path(tempfile.gettempdir())]
    place = next(folder for folder in folders if os.access(folder, os.W_OK | os.X_OK))
    with tempfile.NamedTemporaryFile(dir=place, prefix=".llm-decpomdp-doctor-") as file:
        file.write(b"secret")
        file.flush()
        arguments = {"pid": os.getpid(), "own file": file.name, "package": package.origin}
        tests = instrument(f"assert probe({arguments!r}) is None", "probe")
        limits = replace(sandbox.limits, output_bytes=MAX_REPORT)
        execution = sandbox.run(Program((("probe", PROBES),), "probe"), tests, limits)
    if not execution.tests[0].passed:
        raise RuntimeError(f"the program that tries things failed: {execution.tests[0].message}")
    attempts, facts = json.loads(execution.output)
    return ProbeResults({name: Attempt(*result) for name, result in attempts.items()}, facts)


def forgeries(sandbox: Sandbox, split: bool = True) -> list[str]:
    """Return the names of forgeries that pass, and a line if the honest program does not."""
    tests = instrument(TEST, "square", split=split)

    def passes(code: str) -> bool:
        execution: Execution = sandbox.run(Program((("main_0", code),), "square"), tests)
        return all(test.passed for test in execution.tests)

    fooled = [name for name, code in FORGERIES.items() if passes(code)]
    return fooled if passes(HONEST) else [*fooled, "an honest program does not pass"]
