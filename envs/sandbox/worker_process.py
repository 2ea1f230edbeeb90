"""Transport between the caller and one worker process, and the paths of packages that programs may import."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import IO, Any

from llm_decpomdp.envs.sandbox.program import SandboxError, WorkerResult
from llm_decpomdp.envs.sandbox.worker.protocol.channel import Closed, Reader, pack_down

SCRIPT = Path(__file__).parent / "worker" / "main.py"
START_SECONDS = 60.0  # seconds that a worker may take to start, also on a busy machine
# The evaluator enforces the limits; this must not strike first on a busy machine.
GRACE_SECONDS = 60.0  # seconds beyond the limit on a job after which a silent worker counts as dead
# Environment variables that some builds of Python need to find their shared libraries.
LIBRARIES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
CLOSE_SECONDS = 2.0  # seconds that a worker may take to end
# Lock during the start of a worker: a process that is forked meanwhile would inherit its descriptors.
STARTING = threading.RLock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=STARTING.acquire, after_in_parent=STARTING.release, after_in_child=STARTING.release
    )


@dataclass(frozen=True)
class WorkerSettings:
    """Settings that all workers of a pool share."""

    without: tuple[str, ...] = ()
    """Layers of protection to leave off."""
    require: tuple[str, ...] = ()
    """Layers without which no worker may serve."""
    seed: int = 0
    """Seed of the hashes of strings, and of `random` in the programs."""
    packages: tuple[str, ...] = ()
    """Files and folders of the installed packages that programs may import."""


class WorkerProcess:
    """A worker process. `start` starts or restarts it; `handshake` waits until it is ready."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.layers: dict[str, str] = {}
        """Reason why each layer of protection is off; empty if it is on."""
        self.job: int | None = None  # index of the job that it runs, in its batch
        self.tests_result: WorkerResult | None = None
        """Result of its job without the checks of helpers, available once these begin."""
        self.served = 0
        self.dead = True  # True if it cannot take jobs: before the handshake and after its end
        self.process: subprocess.Popen[bytes] | None = None
        self._resources = ExitStack()  # this end of its socket, and the file of its stderr

    def start(self) -> None:
        """Start a process, without a job; raises `SandboxError` if it cannot be started."""
        self.end()
        self.process = None
        self.unsent = b""
        self.served = 0
        self.job = None
        self.deadline = time.monotonic() + START_SECONDS
        try:
            with STARTING, ExitStack() as stack:
                self._stderr = stack.enter_context(_anonymous_file())
                self.socket, worker_end = map(stack.enter_context, socket.socketpair())
                settings, descriptor = self.settings, worker_end.fileno()
                lists = json.dumps(settings.without), json.dumps(settings.packages)
                options = (str(descriptor), lists[0], str(settings.seed), lists[1])
                self.process = subprocess.Popen(
                    # No site-packages and no bytecode files: fewer modules, and no code of the user in a worker.
                    # A new process, not a fork: forking a caller with torch is many times slower, and would copy
                    # its secrets.
                    [sys.executable, "-S", "-s", "-B", str(SCRIPT), *options],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._stderr,
                    # No folder of the user's stays in use.
                    cwd="/",
                    env=_environment(settings),
                    pass_fds=(descriptor,),
                    # Interrupts of the terminal do not reach it, and its whole process group can be killed.
                    start_new_session=True,
                )
                worker_end.close()
                self._resources = stack.pop_all()
        except OSError as error:
            raise SandboxError(f"cannot start a process for programs: {error}") from error
        self.socket.setblocking(False)
        self.descriptor = self.socket.fileno()
        # The evaluator is trusted: any length of four bytes is accepted.
        self._reader = Reader(self.descriptor, 2**32)

    def handshake(self) -> None:
        """Wait for the report of the layers; raises `SandboxError` if a required one is missing, or none comes."""
        try:
            while (message := self._reader.next_message()) is None:
                # Not `select`, which cannot wait for descriptors above 1023.
                poll = select.poll()
                poll.register(self.descriptor, select.POLLIN)
                if not poll.poll(1000 * max(self.deadline - time.monotonic(), 0)):
                    raise Closed(f"nothing heard within {START_SECONDS:g} seconds")
                if not self._reader.fill():
                    raise Closed("it ended")
        except Closed as error:
            status, stderr = self.reap()
            raise SandboxError(
                f"the sandbox's worker did not start ({error}, exit status {status}): {stderr}"
            ) from None
        self.layers = json.loads(message)
        self.deadline = float("inf")
        self.dead = False
        missing = [name for name in self.settings.require if self.layers.get(name, "unknown")]
        if missing:
            self.end()
            reasons = "; ".join(f"{name}: {self.layers.get(name)}" for name in missing)
            raise SandboxError(
                f"isolation='require', but this system lacks {reasons}. See `llm-decpomdp doctor`, or use "
                "isolation='best_effort' if you trust the programs not to harm this machine"
            )

    def send(self, index: int, job: dict[str, Any]) -> None:
        """Send the worker a job. It runs one job at a time."""
        self.job = index
        self.tests_result = None
        self.deadline = time.monotonic() + job["limits"]["job_seconds"] + GRACE_SECONDS
        self.unsent = pack_down((self.served, job))
        self.flush()

    @property
    def seconds_left(self) -> float:
        """Remaining seconds of its job's limit."""
        return self.deadline - GRACE_SECONDS - time.monotonic()

    def flush(self) -> None:
        """Send as much as possible without blocking."""
        try:
            while self.unsent:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self.unsent = b""  # it has ended: `result` sees it

    def result(self) -> WorkerResult | None:
        """Return the result of its job, if it has arrived; raises `Closed` if the worker has ended."""
        alive = self._reader.fill()
        while True:
            message = self._reader.next_message()
            if message is None and not alive:
                raise Closed("the worker has ended")
            if message is None:
                return None
            number, result, final = json.loads(message)
            # An answer to an earlier job, after an interrupt between sending and reading, must not become this
            # result.
            if self.job is None or number != self.served:
                raise Closed("it has answered another question")
            if final:
                break
            self.tests_result = result
        if self._reader.pending:
            raise Closed("it has answered more than one question")
        self.job = None
        self.served += 1
        self.deadline = float("inf")
        answer: WorkerResult = result
        return answer

    def end(self) -> None:
        """End the process; immediately if it has a job."""
        if self.job is not None or self.dead:
            self.kill()
        self.reap()

    def kill(self) -> None:
        """Kill the process and its process group. Its programs end with it."""
        self.dead = True
        if self.process is not None and self.process.returncode is None:
            # The latter is what macOS raises for a process that has ended.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def reap(self) -> tuple[int, str]:
        """Close the socket, wait for the process, and return its exit status and the end of its stderr."""
        self.dead = True
        if self.process is None:
            return 0, ""
        with self._resources:
            self.socket.close()
            _wait(self.process)
            self.kill()  # the rest of its group: a zygote that was stopped does not notice the end
            status = self.process.wait()
            if self._stderr.closed:
                return status, ""
            self._stderr.seek(0)
            stderr = self._stderr.read()[-1000:].decode("utf-8", "replace").strip()
        return status, stderr

    def detach(self) -> None:
        """Close this end without ending the worker."""
        self._resources.close()


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Wait up to `CLOSE_SECONDS` for the end of a process without reaping it.

    A reaped process frees its id, which is also the id of the group that is killed next.
    """
    if not hasattr(os, "waitid"):  # macOS, before Python 3.13
        with suppress(subprocess.TimeoutExpired):
            process.wait(CLOSE_SECONDS)
        return
    deadline = time.monotonic() + CLOSE_SECONDS
    options = os.WEXITED | os.WNOWAIT | os.WNOHANG
    with suppress(ChildProcessError):  # it has been reaped already
        while os.waitid(os.P_PID, process.pid, options) is None and time.monotonic() < deadline:
            time.sleep(0.001)


def _anonymous_file() -> IO[bytes]:
    """Open a file without a name for a worker's stderr, in memory if the system supports that."""
    if hasattr(os, "memfd_create"):
        # A file, not a pipe: nobody reads while the worker runs, and a full pipe would block it.
        return open(os.memfd_create("stderr"), "w+b")
    return tempfile.TemporaryFile()


def _environment(settings: WorkerSettings) -> dict[str, str]:
    """Return the environment variables of a worker. Candidates clear them, so programs see none."""
    return {
        **{name: os.environ[name] for name in LIBRARIES if name in os.environ},
        "PYTHONUTF8": "1",
        # The order of sets of strings is then equal in each run, and so are results.
        "PYTHONHASHSEED": str(settings.seed),
        # One arena of memory for all threads: each further one would reserve 64 MiB of the address space
        # that a program may have.
        "MALLOC_ARENA_MAX": "1",
        # Look up addresses of library functions once at the start, not in each child. With packages this would
        # take longer, as their libraries are large.
        **({} if settings.packages else {"LD_BIND_NOW": "1"}),
    }


# Installed packages that programs may import


@lru_cache(maxsize=64)
def package_paths(modules: tuple[str, ...]) -> tuple[str, ...]:
    """Return the files and folders of top-level modules, such as `numpy`, and of all that their packages require.

    Raises:
        ValueError: If no installed package has such a module.
    """
    owners = packages_distributions() if modules else {}
    unknown = [module for module in modules if module not in owners]
    if unknown:
        raise ValueError(f"no installed package has the modules {unknown}; install them first")
    paths: set[str] = set()
    visited: set[str] = set()
    pending = [name for module in modules for name in owners[module]]
    while pending:
        name = pending.pop()
        if name in visited:
            continue
        visited.add(name)
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue  # a requirement that does not apply to this system
        tops = {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}
        paths |= {str(package.locate_file(top)) for top in tops}
        for requirement in package.requires or ():
            match = re.match(r"[\w.-]+", requirement)
            if match and "extra" not in requirement.partition(";")[2]:
                pending.append(match[0])
    return tuple(sorted(paths))
