"""Fork server: a minimal, pre-initialised process from which each program's process is forked.

It never sees a program, a test or a result. It keeps two confined children: the current one, to which the
evaluator talks, and a spare that replaces it while the current one is killed and reaped.

Requests of the evaluator are a byte each: `n`, replace the current child by the spare; `c`, return the processor
time of the current child. Answers are `ANSWER` records: `k` when the child is reaped and its files are removed,
`s` with the socket of a new spare, `c`.
"""

from __future__ import annotations

import _socket  # the socket module would treble what a child has to copy
import errno
import gc
import os
import sys
import time
from collections.abc import Callable, Iterable

from llm_decpomdp.envs.sandbox.worker.candidate.candidate import (
    READY,
    Candidate,
    opaque,
    prepare,
    serve,
)
from llm_decpomdp.envs.sandbox.worker.confinement import kernel
from llm_decpomdp.envs.sandbox.worker.protocol.channel import ANSWER, DESCRIPTOR, Closed, write
from llm_decpomdp.envs.sandbox.worker.protocol.codec import pack_call

SIGKILL = 9
# Attempts to fork where the system has no free process, within about ten seconds.
FORK_ATTEMPTS = 60
# Program that is run before any other.
WARM_UP_PROGRAM = "def f(x: int = 0):\n    return [y for y in range(x)]\n"
# Runs after which the interpreter has built and specialised its caches, here and not in every child. An
# interpreter that has never compiled builds the classes of `_ast`, which took each child 1.4 of 2.9 ms.
WARM_UP_RUNS = 20


class Zygote:
    """Forks, kills and reaps the processes of programs; `confine` takes a new child's rights away.

    `folders` are descriptors of a private folder for each child, emptied after each program; may be none.
    """

    def __init__(
        self,
        control: _socket.socket,
        confine: Callable[[Iterable[int], int | None], None],
        folders: list[int],
    ) -> None:
        self.control = control
        self.confine = confine
        self.folders = folders
        self.children: list[int] = []

    def serve(self) -> None:
        """Serve requests until the evaluator has gone."""
        prepare()
        if kernel.LINUX:
            kernel.adopt_orphans()  # to reap what a program has started, where it can start processes
        self.candidate = Candidate()
        warm_up(self.candidate)
        gc.collect()
        kernel.trim_heap()
        # A collection writes to the header of every object, and so copies its page in the child.
        gc.disable()
        gc.freeze()
        kernel.close_descriptors({0, 1, 2, self.control.fileno(), *self.folders})
        self._fork()
        self._fork()
        while True:
            request = self.control.recv(1)
            if request == b"n":
                self._replace()
            elif request == b"c":
                self.control.sendall(ANSWER.pack(b"c", 0, self._cpu_seconds()))
            else:
                break
        # The evaluator has gone; where the kernel does not kill the children with their parent, this does.
        for child in self.children:
            os.kill(child, SIGKILL)

    def _replace(self) -> None:
        """Kill and reap the current child, and fork a new spare; the old spare becomes the current one."""
        child = self.children.pop(0)
        os.kill(child, SIGKILL)
        try:
            os.killpg(child, SIGKILL)  # any processes that it started
        except (ProcessLookupError, PermissionError):
            pass  # there are no others
        _, status = os.waitpid(child, 0)
        try:
            # Processes that are not reaped count against the next program's limit.
            while True:
                os.waitpid(-child, 0)
        except ChildProcessError:
            pass  # there are no others
        if self.folders:
            self.folders.append(self.folders.pop(0))
            if os.listdir(self.folders[-1]):
                clear(self.folders[-1])
        self.control.sendall(ANSWER.pack(b"k", status, 0.0))
        self._fork()

    def _fork(self) -> None:
        """Fork a child, and send the evaluator its socket."""
        evaluator_end, child_end = _socket.socketpair()
        child = _fork_patiently()
        if child == 0:
            self._become_candidate(child_end.fileno(), evaluator_end.fileno())
        self.children.append(child)
        child_end.close()
        rights = DESCRIPTOR.pack(evaluator_end.fileno())
        ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)]
        self.control.sendmsg([ANSWER.pack(b"s", 0, 0.0)], ancillary)
        evaluator_end.close()

    def _become_candidate(self, descriptor: int, evaluator_end: int) -> None:
        # The child never returns into the zygote's loop, whatever happens.
        code = 1
        try:
            # Not `setsid`, which would also make a new group for the scheduler for each child.
            os.setpgid(0, 0)
            folder = self.folders[len(self.children)] if self.folders else None
            self.confine((self.control.fileno(), evaluator_end), folder)
            self.candidate.descriptor = self.candidate.reader.descriptor = descriptor
            serve(self.candidate)
            code = 0
        finally:
            os._exit(code)

    def _cpu_seconds(self) -> float:
        """Return the processor time of the current child; -1 where the system does not provide it."""
        try:
            # As clock_getcpuclockid(3) computes it.
            return time.clock_gettime((~self.children[0] << 3) | 2) if kernel.LINUX else -1.0
        except OSError:
            return -1.0


def warm_up(candidate: Candidate) -> None:
    """Run `WARM_UP_PROGRAM` some times, and drop its answers."""
    unread, candidate.descriptor = os.pipe()
    candidate.reader.descriptor = os.open(os.devnull, os.O_RDONLY)
    request = {
        "segments": [["warm-up", WARM_UP_PROGRAM]],
        "entry_point": "f",
        "helpers": [["warm-up", "f"]],
        "mutation": [],
        "tests": False,
        "seed": 0,
        "output_bytes": 0,
        "calls": [pack_call([3], {}, opaque), pack_call([[]], {}, opaque)],
    }
    for _ in range(WARM_UP_RUNS):
        try:
            write(candidate.descriptor, READY)
            candidate.run(request)
        except Closed:
            pass  # there are no more requests
    for descriptor in (unread, candidate.descriptor, candidate.reader.descriptor):
        os.close(descriptor)
    candidate.handles.numbers.clear()
    candidate.helper_calls = []
    # Otherwise the first program would find a module of that name.
    del sys.modules["__program__"]


def _fork_patiently() -> int:
    for attempt in range(FORK_ATTEMPTS):
        try:
            return os.fork()
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ENOMEM) or attempt == FORK_ATTEMPTS - 1:
                raise
            # The machine may have no free process for a moment; failing here would cost a whole worker.
            time.sleep(0.005 * min(attempt + 1, 40))
    raise AssertionError("unreachable")


def clear(folder: int) -> None:
    """Empty a folder, given as a descriptor: a path could lead elsewhere through a program's links."""
    for _, folders, _, parent in os.fwalk(".", topdown=True, dir_fd=folder):
        for name in folders:
            # A program may have removed the rights to its folders, which a zygote without capabilities needs.
            os.chmod(name, 0o700, dir_fd=parent)
    for _, folders, files, parent in os.fwalk(".", topdown=False, dir_fd=folder):
        for name in files:
            os.unlink(name, dir_fd=parent)
        for name in folders:
            os.rmdir(name, dir_fd=parent)
