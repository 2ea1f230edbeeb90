"""The zygote's children, as the evaluator has them."""

from __future__ import annotations

import _socket
import os

from llm_decpomdp.envs.sandbox.inside.protocol.channel import ANSWER, DESCRIPTORS

CHECK_SECONDS = 1.0
"""How often a zygote that does not answer is looked at."""


class Broken(BaseException):
    """The zygote has ended, or nobody waits for the result any more: there can be no verdict."""


class Children:
    """The zygote's children, as the evaluator has them.

    Args:
        control: Where the zygote answers.
        folders: The zygote's folders. This process works in that of the current child.
    """

    def __init__(self, control: _socket.socket, folders: list[int]) -> None:
        self.folders = folders
        self._enter_folder()
        self.control = control
        self.control.settimeout(CHECK_SECONDS)
        self.ready: list[tuple[int, int]] = []
        """Socket and bell of the current child, and of the spare."""
        self.dying: list[tuple[int, int]] = []
        self.status = 0
        self.failure: Broken | None = None

    def take(self) -> tuple[int, int]:
        """The socket and the bell of a child that has run nothing."""
        while not self.ready:
            self._receive()
        return self.ready[0]

    def discard(self) -> None:
        """Have the current child killed; does not wait for it."""
        self._ask(b"n")
        self.dying.append(self.ready.pop(0))
        self.folders = [*self.folders[1:], *self.folders[:1]]  # as the zygote does
        self._enter_folder()

    def folder_is_used(self) -> bool:
        """Whether anything is in the current child's folder."""
        return bool(self.folders and os.listdir())

    def _enter_folder(self) -> None:
        if self.folders:
            os.fchdir(self.folders[0])

    def tidy(self) -> None:
        """Discard the current child if a test has left something in its folder before it was used."""
        if self.folder_is_used():
            self.take()
            self.discard()

    def exit_status(self) -> int:
        """How the child that was discarded last had ended, as of `os.waitpid`."""
        while self.dying:
            self._receive()
        return self.status

    def cpu_seconds(self) -> float:
        """Processor time of the current child; negative if unknown."""
        self._ask(b"c")
        while True:
            kind, seconds = self._receive()
            if kind == b"c":
                return seconds

    def broken(self, why: str) -> Broken:
        """The exception for what is no program's fault; tests that swallow it cannot make it undone."""
        self.failure = Broken(why)
        return self.failure

    def _check_zygote(self) -> None:
        """A program can stop the zygote, where neither the filter nor a namespace keeps it from that."""
        try:
            process, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return
        if process and os.WIFSTOPPED(status):
            raise self.broken("the zygote was stopped")

    def _ask(self, request: bytes) -> None:
        try:
            self.control.sendall(request)
        except ConnectionError:
            raise self.broken("the zygote has ended") from None

    def _receive(self) -> tuple[bytes, float]:
        space = _socket.CMSG_LEN(DESCRIPTORS.size)
        while True:
            try:
                data, rights, _, _ = self.control.recvmsg(ANSWER.size, space)
                break
            except TimeoutError:
                self._check_zygote()
            except ConnectionError:
                raise self.broken("the zygote has ended") from None
        if len(data) < ANSWER.size:
            raise self.broken("the zygote has ended")
        kind, status, seconds = ANSWER.unpack(data)
        if kind == b"s" and not rights:
            raise self.broken("there is no room for the descriptors of a new process")
        for _, _, content in rights:
            self.ready.append(DESCRIPTORS.unpack(content))
            os.set_blocking(self.ready[-1][0], False)
        if kind == b"k":
            for descriptor in self.dying.pop(0):  # not before: the child would wake up to see it
                os.close(descriptor)
            self.status = status
        return kind, seconds
