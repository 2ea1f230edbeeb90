"""One worker of the pool, from the caller's side: a process to start, to feed, to listen to and to bury."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

from llm_decpomdp.envs.sandbox.inside.protocol.channel import Closed, Reader, pack_down
from llm_decpomdp.envs.sandbox.program import SandboxError

SCRIPT = Path(__file__).parent / "inside" / "worker.py"

START_SECONDS = 60.0
"""How long a worker may take to start, however busy the machine is."""

GRACE_SECONDS = 60.0
"""How much longer than a program's own limits a worker may be silent before it counts as dead."""

LIBRARIES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables without which some Pythons do not start."""

MAX_RUNS = 5
"""How often a test may have to be run for one verdict; the runs with changed results take no longer than two."""

CLOSE_SECONDS = 2.0
"""How long a worker that is told to end may take."""


STARTING = threading.RLock()
"""Held while a worker is started: a process forked meanwhile would inherit ends of it that nobody knows of."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=STARTING.acquire,
        after_in_parent=STARTING.release,
        after_in_child=STARTING.release,
    )


class Worker:
    """A worker process. `start` starts it, again too, and `greet` then waits until it is ready.

    Args:
        without: Layers of protection to leave off.
        require: Layers without which it may not serve.
        seed: Of the hashes of strings, and of `random` in the programs.
        packages: Files and folders of the installed packages that programs may import.
    """

    def __init__(
        self,
        without: tuple[str, ...],
        require: tuple[str, ...],
        seed: int,
        packages: tuple[str, ...] = (),
    ) -> None:
        self.without = without
        self.packages = packages
        self.require = require
        self.seed = seed
        self.layers: dict[str, str] = {}
        """For each layer of protection why it is not on; empty if it is."""
        self.waiting: deque[int] = deque()
        """The jobs that it has, the first of which it is at."""
        self.served = 0
        self.dead = True
        """Whether it cannot be given jobs: before it is started and greeted, and once it has ended."""
        self.process: subprocess.Popen[bytes] | None = None
        self._opened = ExitStack()
        """Our end of its socket, and the file for its last words."""

    def start(self) -> None:
        """Start a process, with no job.

        Raises:
            SandboxError: If it cannot be started.
        """
        self.end()
        self.process = None
        self.dead = True
        self.unsent = b""
        self.served = self._sent = 0
        self.waiting.clear()
        self._limits: deque[float] = deque()
        self.deadline = time.monotonic() + START_SECONDS
        try:
            with STARTING, ExitStack() as opened:
                self._words = opened.enter_context(_nameless_file())
                self.socket, theirs = map(opened.enter_context, socket.socketpair())
                self.process = self._popen(theirs.fileno())
                theirs.close()
                self._opened = opened.pop_all()
        except OSError as error:
            raise SandboxError(f"cannot start a process for programs: {error}") from error
        self.socket.setblocking(False)
        self.descriptor = self.socket.fileno()
        self._reader = Reader(self.descriptor, 2**32)

    def _popen(self, descriptor: int) -> subprocess.Popen[bytes]:
        """A worker's process, in a session of its own, that talks over `descriptor`."""
        packages = json.dumps(self.packages)
        options = (str(descriptor), json.dumps(self.without), str(self.seed), packages)
        return subprocess.Popen(
            [sys.executable, "-S", "-s", "-B", str(SCRIPT), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._words,
            cwd="/",
            env=_environment(self.seed, bool(self.packages)),
            pass_fds=(descriptor,),
            start_new_session=True,
        )

    def greet(self) -> None:
        """Wait until the worker says which layers of protection are on.

        Raises:
            SandboxError: If it does not start, or a required layer is missing.
        """
        try:
            while (message := self._reader.waiting()) is None:
                poll = select.poll()
                poll.register(self.descriptor, select.POLLIN)
                if not poll.poll(1000 * max(self.deadline - time.monotonic(), 0)):
                    raise Closed(f"nothing heard within {START_SECONDS:g} seconds")
                if not self._reader.fill():
                    raise Closed("it ended")
        except Closed as error:
            status, words = self.bury()
            raise SandboxError(
                f"the sandbox's worker did not start ({error}, exit status {status}): {words}"
            ) from None
        self.layers = json.loads(message)
        self.deadline = float("inf")
        self.dead = False
        missing = [name for name in self.require if self.layers.get(name, "unknown")]
        if missing:
            self.end()
            reasons = "; ".join(f"{name}: {self.layers.get(name)}" for name in missing)
            raise SandboxError(
                f"isolation='require', but this system lacks {reasons}. See `llm-decpomdp doctor`, or use "
                "isolation='best_effort' if you trust the programs not to harm this machine"
            )

    def send(self, index: int, job: dict[str, Any]) -> None:
        """Give the worker a job."""
        limits = job["limits"]
        if not self.waiting:
            self.deadline = time.monotonic() + _patience(limits)
        self.waiting.append(index)
        self._limits.append(_patience(limits))
        self.unsent += pack_down((self._sent, job))
        self._sent += 1
        self.flush()

    def flush(self) -> None:
        """Send what can be sent without waiting."""
        try:
            while self.unsent:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self.unsent = b""  # it has ended: `results` sees it

    def results(self) -> Iterator[dict[str, Any]]:
        """The results that have arrived.

        Raises:
            Closed: If the worker has ended.
        """
        alive = self._reader.fill()
        while (message := self._reader.waiting()) is not None:
            number, result = json.loads(message)
            if number != self._sent - len(self.waiting):
                raise Closed("it has answered another question")
            yield result
        if not alive:
            raise Closed("the worker has ended")

    def finished(self) -> int:
        """The job that the next result is about."""
        self.served += 1
        self._limits.popleft()
        index = self.waiting.popleft()
        patience = self._limits[0] if self._limits else float("inf")
        self.deadline = time.monotonic() + patience
        return index

    def end(self) -> None:
        """End the process, at once if it has jobs."""
        if self.waiting or self.dead:
            self.kill()
        self.bury()

    def kill(self) -> None:
        """End the process now; its programs end with it."""
        self.dead = True
        if self.process is not None and self.process.returncode is None:
            with suppress(
                ProcessLookupError, PermissionError
            ):  # macOS says the latter of one that has ended
                os.killpg(self.process.pid, signal.SIGKILL)

    def bury(self) -> tuple[int, str]:
        """Wait for a worker that is told to end by this, or has; its exit status and its last words."""
        self.dead = True
        if self.process is None:
            return 0, ""
        with self._opened:
            self.socket.close()
            self._wait(self.process)
            self.kill()  # what is left of it: a zygote that was stopped does not see its end
            status = self.process.wait()
            if self._words.closed:
                return status, ""
            self._words.seek(0)
            words = self._words.read()[-1000:].decode("utf-8", "replace").strip()
        return status, words

    @staticmethod
    def _wait(process: subprocess.Popen[bytes]) -> None:
        """Wait until a process has ended, but not for ever, and leave it its number: its group has the same."""
        if not hasattr(os, "waitid"):  # macOS, before Python 3.13
            with suppress(subprocess.TimeoutExpired):
                process.wait(CLOSE_SECONDS)
            return
        deadline = time.monotonic() + CLOSE_SECONDS
        how = os.WEXITED | os.WNOWAIT | os.WNOHANG
        with suppress(ChildProcessError):  # it is known already how it ended
            while os.waitid(os.P_PID, process.pid, how) is None and time.monotonic() < deadline:
                time.sleep(0.001)

    def forget(self) -> None:
        """Close our end without ending the worker."""
        self._opened.close()


def _nameless_file() -> IO[bytes]:
    """A file for a worker's last words; in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("last words"), "w+b")
    return tempfile.TemporaryFile()


def _environment(seed: int, packages: bool) -> dict[str, str]:
    """All that a worker gets of an environment, and programs not even that.

    One arena of memory for all threads: each further one would use up an eighth of the address space that a
    program may have. Addresses of library functions are looked up at the start, and not in each child;
    but not with packages, whose libraries are loaded later and are large.
    """
    libraries = {name: os.environ[name] for name in LIBRARIES if name in os.environ}
    return {
        **libraries,
        "PYTHONUTF8": "1",
        "PYTHONHASHSEED": str(seed),
        "MALLOC_ARENA_MAX": "1",
        **({} if packages else {"LD_BIND_NOW": "1"}),
    }


def _patience(limits: dict[str, Any]) -> float:
    run: float = (limits["load_seconds"] + limits["program_seconds"]) * limits["wall_factor"]
    return GRACE_SECONDS + MAX_RUNS * run
