"""Session with the processes of one program: requests, answers, limits; client of the zygote that forks them."""

from __future__ import annotations

import _socket
import os
import select
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from llm_decpomdp.envs.sandbox.worker.evaluator import reports
from llm_decpomdp.envs.sandbox.worker.protocol import channel, codec

# Time that a process may take until it is confined and ready, however busy the machine is.
START_SECONDS = 60.0
# Time before the processor time is first looked up: asking the zygote costs a message and a wake-up, and most
# answers come sooner.
FIRST_CHECK_SECONDS = 0.04
SIGKILL = 9
# Rare: only a zygote that was stopped does not answer.
CHECK_SECONDS = 1.0  # interval between checks of a zygote that does not answer
# All answers stay in memory while the test runs.
MAX_RECEIVED = 32 * 2**20  # maximum size of all messages of one program, in bytes
# Maximum number of single calls and callbacks of one program; ten items of an iterator count as one.
MAX_OPERATIONS = 5000


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
        space = _socket.CMSG_LEN(channel.DESCRIPTOR.size)
        while True:
            try:
                data, rights, _, _ = self.control.recvmsg(channel.ANSWER.size, space)
                break
            except TimeoutError:
                # A program can stop the zygote where neither filter nor namespace prevents it.
                with suppress(ChildProcessError):
                    process, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                    if process and os.WIFSTOPPED(status):
                        raise self.broken("the zygote was stopped") from None
            except ConnectionError:
                raise self.broken("the zygote has ended") from None
        if len(data) < channel.ANSWER.size:
            raise self.broken("the zygote has ended")
        kind, status, seconds = channel.ANSWER.unpack(data)
        if kind == b"s" and not rights:
            raise self.broken("there is no room for the descriptors of a new process")
        for _, _, content in rights:
            self.ready += channel.DESCRIPTOR.unpack(content)
            os.set_blocking(self.ready[-1], False)
        if kind == b"k":
            os.close(self.dying.pop(0))  # not before: the child would wake up to see it
            self.status = status
        return kind, seconds


class ProgramSession:
    """The processes of one program, one at a time: after a time-out or a crash, the next one goes on.

    The caller's socket is watched only for its end. `request` is the first message to a new process; the runs that
    decide the tests may take `tests_seconds` of wall time.
    """

    def __init__(
        self,
        zygote: ZygoteClient,
        caller: int,
        request: dict[str, Any],
        limits: dict[str, Any],
        tests_seconds: float,
    ) -> None:
        self.zygote = zygote
        self.caller = caller
        self.request = request
        self.limits = limits
        self.reader: channel.Reader | None = None
        self.failures = 0
        self.ready = False
        self.generation = 0  # number of processes so far
        self.operations = 0.0
        self.received = 0  # bytes of the program's messages
        self.output = ""
        self.new_output = ""  # output of the program since the last `take_output`
        self.last_counts = [0] * len(request["helpers"])
        """Calls of each helper since the program was loaded, as it last reported."""
        self.new_calls = [0] * len(request["helpers"])
        self.loading_calls = [0] * len(request["helpers"])
        """Calls of each helper while the program was loaded."""
        self.wall_decided = False
        """True if a time-out came from the wall clock, which depends on the machine's load."""
        # The conversation of each run sets these two.
        self.answer_callback: Callable[[Any], Any] | None = None
        self.decode: Callable[[str], Any] | None = codec.Decoder({}, codec.MAX_DECODED).decode
        self.needs_fresh_process = False
        """True if each further run of the program needs a new process, as it uses much of one's resources."""
        self.lines: dict[str, int] = {}
        """Number of lines of each author's code."""
        for origin, code in request["segments"]:
            self.lines[origin] = max(self.lines.get(origin, 0), len(code.splitlines()))
        self.slowest_answer = 0.0  # longest time on the clock that an answer took, in seconds
        self.end = time.monotonic() + tests_seconds
        """Time on the clock at which all runs must end, until the next one is set."""
        self.deadline = 0.0  # the same for the current run
        self.reset()

    def take_helper_calls(self) -> list[int]:
        """Return the calls of each helper since the last time, as far as the program tells the truth."""
        calls, self.new_calls = self.new_calls, [0] * len(self.last_counts)
        return calls

    def take_output(self) -> str:
        """Return the program's output since the last time."""
        output, self.new_output = self.new_output, ""
        return output

    def start(self, calls: list[bytes]) -> Any:
        """Load the program and request calls; return the failure to load, or None.

        The answers to the calls are the next messages. A running process loads the program again.
        """
        if self.failures >= self.limits["max_timeouts"]:
            text = f"not run after {self.failures} time-outs or crashes"
            raise reports.NoAnswer("not_run", "", text)
        # Wall time, which depends on the machine's load: the result is not cached.
        if time.monotonic() > self.deadline:
            self.wall_decided = True
            raise reports.NoAnswer("not_run", "", "no time is left for the program")
        self.last_counts = [0] * len(self.last_counts)
        self.generation += 1
        if self.reader is None:
            self.reader = channel.Reader(self.zygote.take(), channel.MAX_MESSAGE)
            self.ready = False
            self.send({**self.request, "calls": calls})
            self.expect(self.receive(START_SECONDS)[0] == "ready")
        else:
            self.send(("again", {"mutation": self.request["mutation"], "calls": calls}, -1))
        self.ready = True
        kind, failure, _ = self.receive(self.limits["load_seconds"])
        self.expect(kind == "loaded")
        self.loading_calls = self.take_helper_calls()
        self.take_output()  # printed before the test begins
        if failure is not None:
            self.stop()
        return failure

    def stop(self) -> None:
        """End the current process, if there is one."""
        if self.reader is not None:
            self.zygote.discard()
            self.reader = None

    def reset(self) -> None:
        """Reset all counts before the next run of the program."""
        # A run with changed results goes on in the same process, if that is as good as a fresh one: the program
        # has left no file, and needs little of the time that a process has. Other differences a program can only
        # use to behave as one that uses the results.
        if not self.request["mutation"] or self.needs_fresh_process or self.zygote.folder_is_used():
            self.stop()
        self.failures = self.received = 0
        self.operations = 0.0
        self.take_helper_calls()
        self.output = self.new_output = ""
        seconds = self.limits["program_seconds"] * self.limits["wall_factor"]
        self.deadline = min(time.monotonic() + seconds, self.end)

    def ask(self, operation: str, data: bytes, handle: int) -> tuple[str, Any, Any]:
        """Send the current process a request and wait for the answer."""
        # Tests iterate over long results; each item is a cheap message.
        self.operations += 0.1 if operation == "next" else 1
        if self.operations > MAX_OPERATIONS:
            text = f"the program needed more than {MAX_OPERATIONS} operations"
            raise reports.NoAnswer("error", "", text)
        assert self.reader is not None
        self.send((operation, data, handle))
        return self.receive(self.limits["test_seconds"])

    def send(self, message: Any) -> None:
        """Send the current process a message, waiting up to `test_seconds` for it to read."""
        assert self.reader is not None
        data = memoryview(channel.pack_down(message))
        deadline = Deadline(self, self.limits["test_seconds"])
        while data:
            try:
                data = data[os.write(self.reader.descriptor, data) :]
            # The socket is full. The program may itself wait until its messages are read, so both directions are
            # watched.
            except BlockingIOError:
                events = self._events(self.reader, deadline, select.POLLIN | select.POLLOUT)
                if not events:
                    self._time_out(deadline.seconds)
                if events & select.POLLIN and not self.reader.fill():
                    self._handle_exit()
                self.expect(len(self.reader.pending) <= 2 * channel.MAX_MESSAGE)
            except OSError:
                self._handle_exit()

    def receive(self, seconds: float) -> tuple[str, Any, Any]:
        """Return the next message of the current process: its kind, its content, and changed arguments.

        Raises:
            NoAnswer: If there is none after `seconds` of processor time, or it is malformed.
        """
        deadline = Deadline(self, seconds)
        while True:
            message = self._wait(deadline)
            assert self.decode is not None
            try:
                kind, content, arguments, helper_calls, output = self.decode(message.decode())
            except codec.TooLarge as error:
                failure = ["ValueError", str(error), "", 0, "", "ValueError", [str(error)]]
                return "error", failure, None
            except codec.DECODE_ERRORS:
                self.expect(False)
            self.expect(type(helper_calls) is list and all(map(reports.is_count, helper_calls)))
            self.expect(len(helper_calls) <= len(self.last_counts) and type(output) is str)
            for helper, calls in enumerate(helper_calls):  # empty before the program is known
                self.new_calls[helper] += max(calls - self.last_counts[helper], 0)
                self.last_counts[helper] = max(calls, self.last_counts[helper])
            if self.ready:
                self.slowest_answer = max(self.slowest_answer, time.monotonic() - deadline.begin)
            room = self.limits["output_bytes"] - len(self.output)
            if output and room > 0:
                self.output += output[:room]
                self.new_output += output[:room]
            if kind == "callback":
                self.send(self._call_back(content))
            elif kind != "shared":  # decoding has changed a container
                return kind, content, arguments

    def failure(self, claim: Any) -> list[Any] | None:
        """Check a program's description of an exception, if there is one; the status is not for it to set."""
        if claim is None:
            return None
        self.expect(reports.is_failure(claim))
        # The status is left out: it would let a program choose its own outcome.
        kind, text, origin, line, _, *rest = claim
        # Prompts show the line to its author, for whom it must not be a message.
        if line > self.lines.get(origin, 0):
            origin, line = "", 0
        return [kind, text, origin, line, "", *rest]

    def expect(self, condition: bool) -> None:
        """End the process if it breaks the protocol: then the program has taken over its channel."""
        if not condition:
            self.failures += 1
            self.stop()
            raise reports.NoAnswer("crashed", "", "the program wrote into the answers to its calls")

    def _call_back(self, content: Any) -> tuple[str, str]:
        """Call a function of the test for the program; return its exception's class, and its result or text."""
        self.operations += 1
        self.expect(self.operations <= MAX_OPERATIONS and self.answer_callback is not None)
        assert self.answer_callback is not None
        try:
            return "", codec.to_text(self.answer_callback(content))
        except Exception as error:
            return type(error).__name__, reports.exception_text(error)

    # Waiting

    def _wait(self, deadline: Deadline) -> bytes:
        reader = self.reader
        assert reader is not None
        try:
            while (message := reader.next_message()) is None:
                if not self._events(reader, deadline, select.POLLIN):
                    self._time_out(deadline.seconds)
                if not reader.fill():
                    self._handle_exit()
        except (channel.Closed, MemoryError):
            self.expect(False)
        assert message is not None
        self.received += len(message)
        # A program that sends 8 MiB for each of many calls would fill this process's memory.
        if self.received > MAX_RECEIVED:
            self.failures = self.limits["max_timeouts"]
            self.stop()
            raise reports.NoAnswer("error", "", f"answers of more than {MAX_RECEIVED} bytes")
        return message

    def _events(self, reader: channel.Reader, deadline: Deadline, mask: int) -> int:
        """Wait for one of the events `mask` of the process's socket; 0 if the time is over."""
        poll = select.poll()
        poll.register(reader.descriptor, mask)
        # No events are requested: only the end of the caller is reported.
        poll.register(self.caller, 0)
        while True:
            timeout = deadline.next_check - time.monotonic()
            if timeout <= 0 and deadline.is_over():
                return 0
            events = dict(poll.poll(1000 * max(timeout, 0)))
            if self.caller in events:
                raise self.zygote.broken("nobody waits")
            if reader.descriptor in events:
                closed = events[reader.descriptor] & ~(select.POLLIN | select.POLLOUT)
                return events[reader.descriptor] | (select.POLLIN if closed else 0)

    def _time_out(self, seconds: float) -> None:
        if not self.ready:
            raise self.zygote.broken(f"no process was ready within {seconds:g} seconds")
        self.failures += 1
        self.stop()
        raise reports.NoAnswer("timeout", "TimeoutError", f"no result within {seconds:g} seconds")

    def _handle_exit(self) -> None:
        self.failures += 1
        self.stop()
        status = self.zygote.exit_status()
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == SIGKILL:
            self.wall_decided = True  # the machine may have run out of memory
        if not self.ready:
            raise self.zygote.broken(f"a process ended before its program (status {status})")
        raise reports.failure_from_status(status)


class Deadline:
    """Time limit of one answer: in processor time of the process, and with much more in wall time."""

    def __init__(self, session: ProgramSession, seconds: float) -> None:
        self.session = session
        self.seconds = seconds
        self.begin = time.monotonic()
        self.used_before: float | None = None
        self.next_check = self.begin + min(FIRST_CHECK_SECONDS, seconds)

    def is_over(self) -> bool:
        """Check whether the time is over; otherwise `next_check` is the time of the next check."""
        session, now = self.session, time.monotonic()
        last = self.begin + self.seconds * session.limits["wall_factor"]
        if session.ready:
            last = min(last, session.deadline)
        if now >= last:
            session.wall_decided = True
            return True
        total = session.zygote.cpu_seconds()
        if total < 0:  # unknown
            seconds = now - self.begin
        else:
            # The process may have used time before this deadline began, which is known only from the first check
            # on.
            if self.used_before is None:
                self.used_before = total - min(total, now - self.begin)
            seconds = total - self.used_before
        # The two clocks differ slightly; without the margin the last check would be repeated many times.
        if seconds >= 0.99 * self.seconds:
            return True
        self.next_check = min(now + max(self.seconds - seconds, 0.002), last)
        return False
