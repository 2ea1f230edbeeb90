"""A conversation with the processes of one program, from the side that is trusted: calls, answers and limits."""

from __future__ import annotations

import _socket
import os
import select
import signal
import time

from llm_decpomdp.envs.sandbox.inside.candidate import OUT_OF_MEMORY
from llm_decpomdp.envs.sandbox.inside.channel import MAX_MESSAGE, Closed, Reader, pack_down, write
from llm_decpomdp.envs.sandbox.inside.codec import DECODE_ERRORS, Decoder, encode, to_text
from llm_decpomdp.envs.sandbox.inside.reports import is_failure
from llm_decpomdp.envs.sandbox.inside.zygote import ANSWER, DESCRIPTOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

START_SECONDS = 60.0
"""How long a process may take until it is confined and waits for a program, however busy the machine is."""

QUIET_SECONDS = 0.02
"""How long the evaluator sleeps until the bell rings, before it looks at each answer as it comes."""

MAX_OPERATIONS = 5000
"""Calls, items and callbacks in all, one at a time, that one program may cost."""


class Gone(BaseException):
    """The program cannot answer: it hangs, has ended, or does not keep to the protocol."""

    def __init__(self, status: str, kind: str, text: str) -> None:
        super().__init__(text)
        self.remote = [kind, text, "", 0, status]


class TrainerGone(BaseException):
    """Nobody waits for the result any more."""


class Children:
    """The zygote's children, as the evaluator has them."""

    def __init__(self, control: _socket.socket, bell: int) -> None:
        self.control = control
        self.bell = bell
        self.ready: list[int] = []
        self.dying: list[int] = []
        self.status = 0

    def take(self) -> int:
        """The socket of a child that has run nothing."""
        while not self.ready:
            self._receive()
        return self.ready[0]

    def discard(self) -> None:
        """Have the current child killed; does not wait for it."""
        self.dying.append(self.ready.pop(0))
        self.control.sendall(b"n")

    def exit_status(self) -> int:
        """How the child that was discarded last had ended, as of `os.waitpid`."""
        while self.dying:
            self._receive()
        return self.status

    def cpu_seconds(self) -> float:
        """Processor time of the current child; negative if unknown."""
        self.control.sendall(b"c")
        while True:
            kind, seconds = self._receive()
            if kind == b"c":
                return seconds

    def _receive(self) -> tuple[bytes, float]:
        data, rights, _, _ = self.control.recvmsg(ANSWER.size, _socket.CMSG_LEN(DESCRIPTOR.size))
        if len(data) < ANSWER.size:
            raise ConnectionError("the zygote has ended")
        kind, status, seconds = ANSWER.unpack(data)
        self.ready += [DESCRIPTOR.unpack(content)[0] for _, _, content in rights]
        if kind == b"k":
            os.close(self.dying.pop(0))  # not before: the child would wake up to see it
            self.status = status
        return kind, seconds


class Session:
    """The processes of one program, one at a time: after a time-out or a crash, the next one goes on.

    Args:
        children: Where processes come from.
        trainer: Descriptor of whoever waits for the result; looked at only to see whether it is still there.
        request: What a new process is told.
        limits: See `llm_decpomdp.envs.sandbox.Limits`.
    """

    def __init__(
        self, children: Children, trainer: int, request: dict[str, Any], limits: dict[str, Any]
    ) -> None:
        self.children = children
        self.trainer = trainer
        self.request = request
        self.limits = limits
        self.reader: Reader | None = None
        self.failures = 0
        self.ready = False
        self.generation = 0
        """How many processes there have been."""
        self.operations = 0
        self.output = ""
        self.finished_calls = 0
        self.current_calls = 0
        self.wall_decided = False
        """Whether a time-out came from the clock on the wall, which depends on the machine's load."""
        self.answer_callback: Callable[[Any], Any] | None = None
        self.decode: Callable[[str], Any] = Decoder({}).decode
        self.deadline = time.monotonic() + limits["program_seconds"] * limits["wall_factor"]

    @property
    def helper_calls(self) -> int:
        """How often the helper has run, as far as the program says the truth."""
        return self.finished_calls + self.current_calls

    def start(self, calls: list[bytes]) -> Any:
        """Start a process and have it make calls; the failure to load, or None.

        The answers to the calls are the next messages.
        """
        if self.failures >= self.limits["max_timeouts"]:
            text = f"not run after {self.failures} time-outs or crashes"
            raise Gone("not_run", "", text)
        descriptor = self.children.take()
        self.reader = Reader(descriptor, MAX_MESSAGE)
        self.generation += 1
        try:
            write(descriptor, pack_down({**self.request, "calls": calls}))
        except Closed:
            self._died()
        self.ready = False
        self.expect(self.receive(START_SECONDS, quiet=True)[0] == "ready")
        self.ready = True
        kind, failure, _ = self.receive(self.limits["load_seconds"], quiet=True)
        self.expect(kind == "loaded")
        return failure

    def stop(self) -> None:
        """End the current process, if there is one."""
        if self.reader is not None:
            self.reader = None
            self.finished_calls += self.current_calls
            self.current_calls = 0
            self.children.discard()

    def ask(self, operation: str, data: bytes, handle: int, count: int) -> tuple[str, Any, Any]:
        """Ask the current process for something and wait for the answer."""
        self.operations += 1
        if self.operations > MAX_OPERATIONS:
            raise Gone("error", "", f"the program needed more than {MAX_OPERATIONS} operations")
        assert self.reader is not None
        self.send((operation, data, handle, count))
        return self.receive(self.limits["test_seconds"])

    def send(self, message: Any) -> None:
        """Send the current process a message."""
        assert self.reader is not None
        try:
            write(self.reader.descriptor, pack_down(message))
        except Closed:
            self._died()

    def receive(self, seconds: float, quiet: bool = False) -> tuple[str, Any, Any]:
        """The next message of the current process: its kind, its content, and changed arguments.

        Args:
            seconds: Processor time that it may take until then.
            quiet: Whether to wait for the bell first.

        Raises:
            Gone: If there is none in time, or it is none.
        """
        while True:
            message = self._wait(seconds, quiet)
            try:
                kind, content, changed, helper_calls, output = self.decode(message.decode())
                self.current_calls = max(self.current_calls, int(helper_calls))
                room = self.limits["output_bytes"] - len(self.output)
                self.output += str(output)[: max(room, 0)]
            except DECODE_ERRORS:
                self.expect(False)
            if kind != "callback":
                return kind, content, changed
            self._call_back(content)

    def failure(self, claim: Any) -> list[Any] | None:
        """What the program says about an exception, or None; the status is not for the program to say."""
        self.expect(claim is None or is_failure(claim))
        return None if claim is None else [*claim[:4], "", *claim[5:]]

    def expect(self, condition: bool) -> None:
        """End the process if it does not keep to the protocol: then it is not our code that speaks."""
        if not condition:
            self.failures += 1
            self.stop()
            raise Gone("crashed", "", "the program wrote into the answers to its calls")

    def _call_back(self, content: Any) -> None:
        """The program calls a function of the test."""
        self.operations += 1
        if self.operations > MAX_OPERATIONS or self.answer_callback is None:
            self.expect(False)
        assert self.answer_callback is not None
        try:
            reply = ("", to_text(encode(self.answer_callback(content), refuse)))
        except Exception as error:
            reply = (type(error).__name__, str(error))
        self.send(reply)

    # Waiting

    def _wait(self, seconds: float, quiet: bool) -> bytes:
        reader = self.reader
        assert reader is not None
        begin = time.monotonic()
        try:
            message = reader.waiting()
            if message is None and quiet:
                self._sleep_until_bell(reader)
            deadline = _Deadline(self, seconds, begin)
            while message is None:
                if not self._readable(reader, deadline):
                    self._time_out(seconds)
                if not reader.fill():
                    self._died()
                message = reader.waiting()
        except Closed:
            self.expect(False)
        assert message is not None
        return message

    def _sleep_until_bell(self, reader: Reader) -> None:
        poll = select.poll()
        poll.register(self.children.bell, select.POLLIN)
        poll.register(reader.descriptor, 0)
        for descriptor, _ in poll.poll(1000 * QUIET_SECONDS):
            if descriptor == self.children.bell:
                os.read(descriptor, 4096)

    def _readable(self, reader: Reader, deadline: _Deadline) -> bool:
        """Wait for something to read; False if the time is over."""
        poll = select.poll()
        poll.register(reader.descriptor, select.POLLIN)
        poll.register(self.trainer, 0)
        while True:
            for descriptor, _ in poll.poll(1000 * max(deadline.next_check - time.monotonic(), 0)):
                if descriptor == self.trainer:
                    raise TrainerGone
                return True
            if deadline.passed():
                return False

    def _time_out(self, seconds: float) -> None:
        if not self.ready:
            raise RuntimeError(f"no process was ready within {seconds:g} seconds")
        self.failures += 1
        self.stop()
        raise Gone("timeout", "TimeoutError", f"no result within {seconds:g} seconds")

    def _died(self) -> None:
        self.failures += 1
        self.stop()
        status = self.children.exit_status()
        if not self.ready:
            raise RuntimeError(f"a process ended before it had a program (wait status {status})")
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number == signal.SIGXCPU:
                raise Gone("timeout", "TimeoutError", "the program's processor time is used up")
            name = signal.strsignal(number)
            status_name = "forbidden" if number == signal.SIGSYS else "crashed"
            raise Gone(status_name, "", f"the program was killed by signal {number} ({name})")
        code = os.WEXITSTATUS(status)
        if code == OUT_OF_MEMORY:
            raise Gone("memory", "MemoryError", "")
        raise Gone("crashed", "", f"the program ended its own process (exit code {code})")


class _Deadline:
    """Time limit of one answer: processor time of the process, or much more on the clock."""

    def __init__(self, session: Session, seconds: float, begin: float) -> None:
        self.session = session
        self.seconds = seconds
        self.begin = begin
        self.used_before: float | None = None
        self.next_check = begin + 2 * QUIET_SECONDS

    def passed(self) -> bool:
        """Whether the time is over; otherwise `next_check` is when to ask again."""
        session, now = self.session, time.monotonic()
        last = min(self.begin + self.seconds * session.limits["wall_factor"], session.deadline)
        if now >= last:
            session.wall_decided = True
            return True
        total = session.children.cpu_seconds()
        if total < 0:  # the system does not tell
            used = now - self.begin
        else:
            if self.used_before is None:
                self.used_before = total - min(total, now - self.begin)
            used = total - self.used_before
        if used >= 0.99 * self.seconds:
            return True
        self.next_check = min(now + max(self.seconds - used, 0.002), last)
        return False


def refuse(value: Any) -> Any:
    """For values of a test that no program can be given."""
    raise TypeError(
        f"a {type(value).__name__} cannot be sent to the program; test it with split=False"
    )
