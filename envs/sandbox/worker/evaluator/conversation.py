"""Client of the program for one run of a test: its calls, and their answers.

`PlannedConversation` (`call_plan.py`) gives the same answers with fewer messages.
"""

from __future__ import annotations

import _thread
import sys
from collections.abc import Callable
from typing import Any

from llm_decpomdp.envs.sandbox.worker.evaluator.proxies import (
    Exhausted,
    ProxyTable,
    Reference,
    refuse,
)
from llm_decpomdp.envs.sandbox.worker.evaluator.reports import NoAnswer, rebuild_exception
from llm_decpomdp.envs.sandbox.worker.evaluator.session import ProgramSession
from llm_decpomdp.envs.sandbox.worker.protocol.channel import assign
from llm_decpomdp.envs.sandbox.worker.protocol.codec import DECODE_ERRORS, decode_call, pack_call

NO_ARGUMENTS = pack_call((), {}, refuse)


class Conversation:
    """The calls of one run of a test, which the program is asked one by one.

    Args:
        session: The program's processes.
        write_back: Show the test how calls changed their arguments.
        plain: See `pack_call`.
        methods: Methods that the task's text defines, see `proxies`.
    """

    def __init__(
        self, session: ProgramSession, write_back: bool, plain: bool, methods: frozenset[str]
    ) -> None:
        self.session = session
        self.methods = methods
        self.plain = plain
        self.write_back = write_back
        # A test may call from several threads. Reentrant, as a callback of the test may call the program again.
        self.lock = _thread.RLock()
        self.planned_calls: list[bytes] = []  # calls that the program gets with its code
        self.answers: list[Any] = []  # their answers
        self.exceptions: dict[str, type[Exception]] = {}
        """Classes of exceptions that the prompt defines, by name."""
        self.count: Callable[[list[int]], None] = ignore_counts
        """Callback that receives the calls of each helper during the current request."""
        self.mismatch = False  # True if the test makes other calls than planned
        self.holds_live_values = False
        """True if the test holds an object that lives in the program's process."""
        self.arguments_changed = False  # True if a call changed its arguments
        self.failure: NoAnswer | None = None
        """Last failure of the program to answer: a test that swallows it must not pass."""
        self.objects = ProxyTable(self)
        session.decode = self.objects.decode
        session.answer_callback = self.objects.answer_callback

    def load(self) -> list[Any] | None:
        """Load the program; return the failure to load, or None."""
        try:
            return self.session.failure(self.session.start(self.planned_calls))
        except NoAnswer as error:
            return error.remote

    def call(
        self, reference: Reference, args: Any, kwargs: dict[str, Any], in_place: bool = False
    ) -> Any:
        """Call the program's function, or a function that it returned.

        A call that the test makes `in_place`, ignoring its result, may change its arguments. Changes by other
        calls are shown to the test in one run and hidden in another: it must pass both times, or `candidate(xs) ==
        sorted(xs)` could be made true by emptying `xs`.
        """
        with self.lock:
            data = pack_call(args, kwargs, self.objects, self.plain)
            answer = (
                self._answer(data) if reference[1] < 0 else self._ask_alive("call", data, reference)
            )
            kind, content, arguments = answer
            visible = self.write_back or in_place or arguments is None
            if arguments is not None:
                self.arguments_changed = self.arguments_changed or not in_place
                if visible:
                    self._write_back(arguments, args, kwargs)
            if kind != "argument":
                return self._value(answer)
            # The position of an argument, and its value. A forged one could lie outside, or be a proxy.
            every = [*args, *kwargs.values()]
            sound = type(content) is list and len(content) == 2 and type(content[0]) is int
            sound = sound and 0 <= content[0] < len(every)
            self._run_guarded(lambda: self.session.expect(sound))
            return every[content[0]] if visible else content[1]

    def _value(self, answer: Any) -> Any:
        """Return the result of a call, or raise its exception."""
        kind, content, _ = answer
        if kind == "error":
            # Rebuilt as far as it is harmless.
            failure = self._run_guarded(lambda: self.session.failure(content))
            raise rebuild_exception(failure, self.exceptions)
        self._run_guarded(lambda: self.session.expect(kind == "value"))
        return content

    def operate(self, reference: Reference, operation: str, *args: Any) -> Any:
        """Perform an operation other than a call on an object of the program; see `candidate.OPERATIONS`."""
        with self.lock:
            self._leave_plan()
            self._check_alive(reference)
            data = pack_call(args, {}, self.objects, self.plain)
            return self._value(self._ask_alive(operation, data, reference))

    def _leave_plan(self) -> None:
        """Do nothing: without a plan, the program has no call before the test makes it."""

    def _answer(self, data: bytes) -> Any:
        """Return the answer to a call of the entry point."""
        return self._run_guarded(lambda: self._ask("call", data, -1))

    def _start(self, calls: list[bytes]) -> None:
        failure = self.session.failure(self.session.start(calls))
        if failure is not None:
            raise NoAnswer("error", failure[0], failure[1])

    def _ask(self, operation: str, data: bytes, handle: int) -> Any:
        if self.session.reader is None:
            self._start([])
        self.objects.send_changes()
        return self.session.ask(operation, data, handle)

    def next(self, reference: Reference) -> Any:
        """Return the next item of an iterator; raises `Exhausted` after the last one."""
        answer = self._ask_alive("next", NO_ARGUMENTS, reference)
        kind, content, _ = answer
        # Only here may the program end an iteration; elsewhere StopIteration would end a loop of the test early.
        if kind == "error" and isinstance(content, list) and content[5:6] == ["StopIteration"]:
            raise Exhausted
        return self._value(answer)

    async def run_coroutine(self, reference: Reference) -> Any:
        """Run a coroutine of the program in its process, and return its result."""
        return self._value(self._ask_alive("run", NO_ARGUMENTS, reference))

    def _ask_alive(self, operation: str, data: bytes, reference: Reference) -> Any:
        """Request an operation on an object, if its process is still running."""
        self._check_alive(reference)
        return self._run_guarded(lambda: self._ask(operation, data, reference[1]))

    def _check_alive(self, reference: Reference) -> None:
        if reference[1] >= 0 and not self._is_alive(reference[2]):
            self.failure = NoAnswer("crashed", "", "the process that held this value has ended")
            raise self.failure

    def _run_guarded(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except NoAnswer as error:
            self.failure = error
            raise
        finally:
            self.count(self.session.take_helper_calls())
            print_output(self.session.take_output())

    def can_pass(self, reference: Reference, required: bool) -> bool:
        """Check whether an object may be passed to the program; raises `NoAnswer` if a `required` one may not."""
        if reference[1] < 0:
            return True
        self._leave_plan()
        if required:
            self._check_alive(reference)
        return self._is_alive(reference[2])

    def _is_alive(self, generation: int) -> bool:
        """Check whether the process of this generation is still running."""
        return generation == self.session.generation and self.session.reader is not None

    def _write_back(self, arguments: Any, args: Any, kwargs: dict[str, Any]) -> None:
        try:
            new_args, new_kwargs = decode_call(arguments)
            pairs = [*zip(args, new_args, strict=True)]
            pairs += [(kwargs[name], value) for name, value in new_kwargs.items()]
        except DECODE_ERRORS:
            self._run_guarded(lambda: self.session.expect(False))
        for old, new in pairs:
            assign(old, new)


def ignore_counts(calls: list[int]) -> None:
    """Do nothing: a conversation without findings needs no counts of the helpers' calls."""


def print_output(output: str) -> None:
    """Print what the program printed, where the test has redirected the output to see it."""
    # Otherwise it would only be dropped.
    if output and sys.stdout is not sys.__stdout__:
        sys.stdout.write(output.encode("utf-8", "replace").decode())
