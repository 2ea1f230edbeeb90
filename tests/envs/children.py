"""Processes of their own for the tests of the sandbox's layers, started as the sandbox starts its own.

What they try must do no harm if a layer is broken and lets it pass, because the tests may run as root.
"""

from __future__ import annotations

from pathlib import Path

from llm_decpomdp.envs.sandbox.worker.confinement import kernel
from tests.support.processes import python

INSIDE = Path(kernel.__file__).parents[1]
PRELUDE = f"""
import ctypes, errno, json, os, resource, socket, sys
for name in ("llm_decpomdp", "llm_decpomdp.envs", "llm_decpomdp.envs.sandbox", "llm_decpomdp.envs.sandbox.worker"):
    sys.modules[name] = module = type(sys)(name)
module.__path__ = [{str(INSIDE)!r}]
from llm_decpomdp.envs.sandbox.worker.confinement import kernel, landlock, namespaces, seccomp

def outcome(action):
    try:
        action()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"

def outcomes(actions):
    print(json.dumps(dict((name, outcome(action)) for name, action in actions.items())))

def libc(name, *arguments):
    return lambda: kernel.check_result(kernel.libc[name](*arguments), name)

def call(number, *arguments):
    return lambda: kernel.syscall(number, *arguments)
"""
AS_NOBODY = """
if os.getuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # else it may not write its own uid_map
"""


def child(code: str, stdin: str = "", cwd: Path | str = "/") -> str:
    """Run a program with `PRELUDE`; return its output."""
    return python(
        *("-S", "-s", "-B", "-c", PRELUDE + code), input=stdin, timeout=120, cwd=cwd
    ).stdout
