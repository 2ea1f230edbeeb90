"""A conversation with the processes of one program, from the side that is trusted: calls, answers and limits."""

from __future__ import annotations

import os
import select
import time

from llm_decpomdp.envs.sandbox.inside.evaluator.deadline import QUIET_SECONDS, Deadline
from llm_decpomdp.envs.sandbox.inside.evaluator.failures import Gone, of_exit, said
from llm_decpomdp.envs.sandbox.inside.evaluator.reports import is_count, is_failure
from llm_decpomdp.envs.sandbox.inside.evaluator.zygote_client import Children
from llm_decpomdp.envs.sandbox.inside.protocol.channel import MAX_MESSAGE, Closed, Reader, pack_down
from llm_decpomdp.envs.sandbox.inside.protocol.codec import (
    DECODE_ERRORS,
    MAX_HELD,
    Decoder,
    TooLarge,
    to_text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

START_SECONDS = 60.0
"""How long a process may take until it is confined and waits for a program, however busy the machine is."""

SIGKILL = 9

MAX_RECEIVED = 32 * 2**20
"""Bytes of all messages of one program."""

MAX_OPERATIONS = 5000
"""Calls and callbacks in all, one at a time, that one program may cost; ten items count as one."""


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
        self.bell = -1
        self.generation = 0
        """How many processes there have been."""
        self.operations = 0.0
        self.received = 0
        """Bytes of its messages."""
        self.output = ""
        self.told = [0] * len(request["helpers"])
        """How often each helper has run since the program was loaded, as it says."""
        self.new_calls = [0] * len(request["helpers"])
        self.loading_calls = [0] * len(request["helpers"])
        """How often each helper ran while the program was loaded."""
        self.wall_decided = False
        """Whether a time-out came from the clock on the wall, which depends on the machine's load."""
        self.answer_callback: Callable[[Any], Any] | None = None
        self.decode: Callable[[str], Any] | None = Decoder({}, MAX_HELD).decode
        self.heavy = False
        """Whether each further run of the program needs a process of its own, as it takes much of what one has."""
        self.origins = {origin for origin, _ in request["segments"]}
        self.deadline = 0.0
        self.begin_again()

    def take_calls(self) -> list[int]:
        """How often each helper has run since this was asked last, as far as the program says the truth."""
        calls, self.new_calls = self.new_calls, [0] * len(self.told)
        return calls

    def start(self, calls: list[bytes]) -> Any:
        """Have the program loaded and make calls; the failure to load, or None.

        The answers to the calls are the next messages. A process that is there loads the program again.
        """
        if self.failures >= self.limits["max_timeouts"]:
            text = f"not run after {self.failures} time-outs or crashes"
            raise Gone("not_run", "", text)
        if time.monotonic() > self.deadline:
            self.wall_decided = True
            raise Gone("not_run", "", "no time is left for the program")
        self.told = [0] * len(self.told)
        self.generation += 1
        if self.reader is None:
            descriptor, self.bell = self.children.take()
            self.reader = Reader(descriptor, MAX_MESSAGE)
            self.ready = False
            self.send({**self.request, "calls": calls})
            self.expect(self.receive(START_SECONDS, quiet=True)[0] == "ready")
        else:
            self.send(("again", {"change": self.request["change"], "calls": calls}, -1))
        self.ready = True
        kind, failure, _ = self.receive(self.limits["load_seconds"], quiet=True)
        self.expect(kind == "loaded")
        self.loading_calls = self.take_calls()
        if failure is not None:
            self.stop()
        return failure

    def stop(self) -> None:
        """End the current process, if there is one."""
        if self.reader is not None:
            self.children.discard()
            self.reader = None

    def begin_again(self) -> None:
        """Forget a run of the program: what it used up is not held against the next one.

        A run with changed results goes on in the process that is there, if that is as good as a fresh one: the
        program has left no file, and needs little of the time that a process has. What else differs, a program
        can but use to behave as one that uses the results.
        """
        if not self.request["change"] or self.heavy or self.children.folder_is_used():
            self.stop()
        self.failures = self.received = 0
        self.operations = 0.0
        self.take_calls()
        self.output = ""
        self.deadline = (
            time.monotonic() + self.limits["program_seconds"] * self.limits["wall_factor"]
        )

    def ask(self, operation: str, data: bytes, handle: int) -> tuple[str, Any, Any]:
        """Ask the current process for something and wait for the answer."""
        self.operations += 0.1 if operation == "next" else 1
        if self.operations > MAX_OPERATIONS:
            raise Gone("error", "", f"the program needed more than {MAX_OPERATIONS} operations")
        assert self.reader is not None
        self.send((operation, data, handle))
        return self.receive(self.limits["test_seconds"])

    def send(self, message: Any) -> None:
        """Send the current process a message; one that does not listen has `test_seconds` to begin to."""
        assert self.reader is not None
        data = memoryview(pack_down(message))
        deadline = Deadline(self, self.limits["test_seconds"])
        while data:
            try:
                data = data[os.write(self.reader.descriptor, data) :]
            except BlockingIOError:
                self._make_room(self.reader, deadline)
            except OSError:
                self._died()

    def _make_room(self, reader: Reader, deadline: Deadline) -> None:
        """Wait until the process can be sent more; it may be waiting itself until it is listened to."""
        events = self._events(reader, deadline, select.POLLIN | select.POLLOUT)
        if not events:
            self._time_out(deadline.seconds)
        if events & select.POLLIN and not reader.fill():
            self._died()
        self.expect(len(reader.pending) <= 2 * MAX_MESSAGE)

    def receive(self, seconds: float, quiet: bool = False) -> tuple[str, Any, Any]:
        """The next message of the current process: its kind, its content, and changed arguments.

        Args:
            seconds: Processor time that it may take until then.
            quiet: Whether to wait for the bell first.

        Raises:
            Gone: If there is none in time, or it is none.
        """
        deadline = Deadline(self, seconds)
        while True:
            message = self._wait(deadline, quiet)
            assert self.decode is not None
            try:
                kind, content, changed, helper_calls, output = self.decode(message.decode())
            except TooLarge as error:
                failure = ["ValueError", str(error), "", 0, "", "ValueError", [str(error)]]
                return "error", failure, None
            except DECODE_ERRORS:
                self.expect(False)
            self.expect(type(helper_calls) is list and all(map(is_count, helper_calls)))
            self.expect(len(helper_calls) <= len(self.told) and type(output) is str)
            for helper, calls in enumerate(helper_calls):  # none before the program is known
                self.new_calls[helper] += max(calls - self.told[helper], 0)
                self.told[helper] = max(calls, self.told[helper])
            room = self.limits["output_bytes"] - len(self.output)
            self.output += output[: max(room, 0)]
            if kind == "callback":
                self._call_back(content)
            elif kind != "shared":  # a container that reading the message has changed
                return kind, content, changed

    def failure(self, claim: Any) -> list[Any] | None:
        """What the program says about an exception, or None; the status is not for the program to say."""
        if claim is None:
            return None
        self.expect(is_failure(claim))
        kind, text, origin, line, _, *rest = claim
        return [kind, text, origin if origin in self.origins else "", line, "", *rest]

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
            reply = ("", to_text(self.answer_callback(content)))
        except Exception as error:
            reply = (type(error).__name__, said(error))
        self.send(reply)

    # Waiting

    def _wait(self, deadline: Deadline, quiet: bool) -> bytes:
        reader = self.reader
        assert reader is not None
        try:
            message = reader.waiting()
            if message is None and quiet:
                self._sleep_until_bell(reader)
            while message is None:
                if not self._events(reader, deadline, select.POLLIN):
                    self._time_out(deadline.seconds)
                if not reader.fill():
                    self._died()
                message = reader.waiting()
        except (Closed, MemoryError):
            self.expect(False)
        assert message is not None
        self.received += len(message)
        if self.received > MAX_RECEIVED:
            self.failures = self.limits["max_timeouts"]
            self.stop()
            raise Gone("error", "", f"answers of more than {MAX_RECEIVED} bytes")
        return message

    def _sleep_until_bell(self, reader: Reader) -> None:
        poll = select.poll()
        poll.register(self.bell, select.POLLIN)
        poll.register(reader.descriptor, 0)
        if poll.poll(1000 * QUIET_SECONDS):
            try:
                os.read(self.bell, 4096)
            except BlockingIOError:
                pass  # it was not the bell, or somebody else has heard it

    def _events(self, reader: Reader, deadline: Deadline, wanted: int) -> int:
        """Wait for one of the `wanted` events of the process's socket; 0 if the time is over."""
        poll = select.poll()
        poll.register(reader.descriptor, wanted)
        poll.register(self.trainer, 0)
        while True:
            left = deadline.next_check - time.monotonic()
            if left <= 0 and deadline.passed():
                return 0
            events = dict(poll.poll(1000 * max(left, 0)))
            if self.trainer in events:
                raise self.children.broken("nobody waits")
            if reader.descriptor in events:
                gone = events[reader.descriptor] & ~(select.POLLIN | select.POLLOUT)
                return events[reader.descriptor] | (select.POLLIN if gone else 0)

    def _time_out(self, seconds: float) -> None:
        if not self.ready:
            raise self.children.broken(f"no process was ready within {seconds:g} seconds")
        self.failures += 1
        self.stop()
        raise Gone("timeout", "TimeoutError", f"no result within {seconds:g} seconds")

    def _died(self) -> None:
        self.failures += 1
        self.stop()
        status = self.children.exit_status()
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == SIGKILL:
            self.wall_decided = True  # the machine may have run out of memory
        if not self.ready:
            raise self.children.broken(f"a process ended before its program (status {status})")
        raise of_exit(status)
