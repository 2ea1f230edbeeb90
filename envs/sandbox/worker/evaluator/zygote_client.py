"""Client of the zygote: takes processes for programs, has them killed, and asks for their processor time."""

from __future__ import annotations

import _socket
import os
from contextlib import suppress

from llm_decpomdp.envs.sandbox.worker.protocol.channel import ANSWER, DESCRIPTOR

# Rare: only a zygote that was stopped does not answer.
CHECK_SECONDS = 1.0  # interval between checks of a zygote that does not answer


class Broken(BaseException):
    """The zygote or the caller has ended: there can be no result."""


class ZygoteClient:
    """Takes processes from the zygote over its socket `control`, and has them killed.

    This process works in that of the zygote's `folders` which belongs to the current child.
    """

    def __init__(self, control: _socket.socket, folders: list[int]) -> None:
        self.folders = folders
        if folders:
            os.fchdir(folders[0])
        self.control = control
        self.control.settimeout(CHECK_SECONDS)
        self.ready: list[int] = []  # sockets of the current child and of the spare
        self.dying: list[int] = []  # sockets of children that are being killed
        self.status = 0
        self.failure: Broken | None = None

    def take(self) -> int:
        """Return the socket of a child that has run no program, once all children before it are reaped.

        The kernel counts the threads of a worker's programs together: those of one that is still being killed
        would leave the next program none.
        """
        while self.dying or not self.ready:
            self._receive()
        return self.ready[0]

    def discard(self) -> None:
        """Have the current child killed, without waiting for it."""
        # Not waited for: the spare takes the next program meanwhile.
        self._ask(b"n")
        self.dying.append(self.ready.pop(0))
        self.folders = [*self.folders[1:], *self.folders[:1]]  # as the zygote does
        if self.folders:
            os.fchdir(self.folders[0])

    def folder_is_used(self) -> bool:
        """Check whether the current child's folder holds anything."""
        return bool(self.folders and os.listdir())

    def discard_used_folder(self) -> None:
        """Discard the current child if a test has left files in its folder."""
        if self.folder_is_used():
            self.take()
            self.discard()

    def exit_status(self) -> int:
        """Return the exit status of the last discarded child, as of `os.waitpid`."""
        while self.dying:
            self._receive()
        return self.status

    def cpu_seconds(self) -> float:
        """Return the processor time of the current child; negative if unknown."""
        self._ask(b"c")
        while True:
            kind, seconds = self._receive()
            if kind == b"c":
                return seconds

    def broken(self, reason: str) -> Broken:
        """Build the exception for failures that are not the program's; it stays set if a test swallows it."""
        self.failure = Broken(reason)
        return self.failure

    def _ask(self, request: bytes) -> None:
        try:
            self.control.sendall(request)
        except ConnectionError:
            raise self.broken("the zygote has ended") from None

    def _receive(self) -> tuple[bytes, float]:
        space = _socket.CMSG_LEN(DESCRIPTOR.size)
        while True:
            try:
                data, rights, _, _ = self.control.recvmsg(ANSWER.size, space)
                break
            except TimeoutError:
                # A program can stop the zygote where neither filter nor namespace prevents it.
                with suppress(ChildProcessError):
                    process, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                    if process and os.WIFSTOPPED(status):
                        raise self.broken("the zygote was stopped") from None
            except ConnectionError:
                raise self.broken("the zygote has ended") from None
        if len(data) < ANSWER.size:
            raise self.broken("the zygote has ended")
        kind, status, seconds = ANSWER.unpack(data)
        if kind == b"s" and not rights:
            raise self.broken("there is no room for the descriptors of a new process")
        for _, _, content in rights:
            self.ready += DESCRIPTOR.unpack(content)
            os.set_blocking(self.ready[-1], False)
        if kind == b"k":
            os.close(self.dying.pop(0))  # not before: the child would wake up to see it
            self.status = status
        return kind, seconds
