"""Client of the program for one run of a test: its calls, and their answers."""

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
    """The calls of one run of a test, answered from those that were prefetched, or one by one.

    Args:
        session: The program's processes.
        plan: Encoded arguments of the calls that the test is expected to make, in order.
        first: Number of them that are answered before the program receives the rest.
        strict: Discard the run at a call that differs from the plan: the program got calls that the test does not
            make.
        write_back: Show the test how calls changed their arguments.
        plain: See `pack_call`.
        methods: Methods that the task's text defines, see `proxies`.
        pause: Let the test run on the first answers, before the rest is requested: it may end there.
    """

    def __init__(
        self,
        session: ProgramSession,
        plan: list[bytes],
        first: int,
        strict: bool,
        write_back: bool,
        plain: bool,
        methods: frozenset[str],
        pause: bool,
    ) -> None:
        self.session = session
        self.methods = methods
        self.plain = plain
        self.plan = plan
        self.first = first
        self.pause = pause
        self.strict = strict
        self.write_back = write_back
        # A test may call from several threads. Reentrant, as a callback of the test may call the program again.
        self.lock = _thread.RLock()
        self.answers: list[Any] = []
        self.calls: list[list[int]] = []  # calls of each helper, for each answer
        self.outputs: list[str] = []  # output of the program before each answer
        self.exceptions: dict[str, type[Exception]] = {}
        """Classes of exceptions that the prompt defines, by name."""
        self.count: Callable[[list[int]], object] = id
        """Callback that receives the calls of each helper during the current request."""
        self.live_answers: dict[int, int] = {}
        """Index of each answer that holds an object of a process, and the generation of that process."""
        self.asked = 0  # calls of the entry point so far
        self.mismatch = False
        self.holds_live_values = False
        """True if the test holds an object that lives in the program's process."""
        self.released = False
        """True if the process was ended early, as all answers of the plan have been received."""
        self.arguments_changed = False  # True if a call changed its arguments
        self.failure: NoAnswer | None = None
        """Last failure of the program to answer: a test that swallows it must not pass."""
        self.objects = ProxyTable(self)
        session.decode = self.objects.decode
        session.answer_callback = self.objects.answer_callback

    def prefetch(self) -> list[Any] | None:
        """Load the program and make the calls of the plan; return the failure to load, or None."""
        try:
            failure = self.session.failure(self.session.start(self.plan[: self.first]))
        except NoAnswer as error:
            return error.remote
        if failure is None:
            self._receive_answers(self.first if self.pause else len(self.plan))
        return failure

    def _receive_answers(self, number: int) -> None:
        """Receive answers to calls of the plan until there are this many; request those after the first ones."""
        # End of the calls that the current process has received.
        end = max(self.first, len(self.answers))
        seconds = self.session.limits["test_seconds"]
        while len(self.answers) < number:
            try:
                if len(self.answers) == end:
                    end = number
                    rest = self.plan[len(self.answers) : end]
                    if self.session.reader is not None:
                        self.session.send(("prefetch", rest, -1))
                    elif not self._restart(rest):
                        break
                before, self.holds_live_values = self.holds_live_values, False
                answer: Any = self.session.receive(seconds)
                if self.holds_live_values:
                    self.live_answers[len(self.answers)] = self.session.generation
                self.holds_live_values |= before
                self._append(answer)
            except NoAnswer as error:
                self._append(error.with_traceback(None))
                end = self.first if len(self.answers) < self.first else number
                if not self._restart(self.plan[len(self.answers) : end]):
                    break
        if self.strict and any(index + 1 < len(self.plan) for index in self.live_answers):
            # The use that the test makes of the object may decide the results of later calls.
            self.mismatch = True
        elif len(self.answers) == len(self.plan) > 0 and self.strict and not self.holds_live_values:
            self.released = True
            if not any(map(any, [self.session.loading_calls, *self.calls])):
                # The answers are all here, and no helper was called: the process is not needed any more.
                self.session.stop()  # it is killed and reaped while the test runs

    def _restart(self, calls: list[bytes]) -> bool:
        """Make calls in a new process after one has failed; return False if there are none or it does not load."""
        if not calls:
            return False
        try:
            self._start(calls)
            return True
        except NoAnswer as error:
            reason = error
        while len(self.answers) < len(self.plan):
            self._append(reason)
        return False

    def _append(self, answer: Any) -> None:
        """Keep an answer for the test, with what the program did meanwhile."""
        self.answers.append(answer)
        self.calls.append(self.session.take_helper_calls())
        self.outputs.append(self.session.take_output())

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
        """Discard a planned run at an operation on an object: prefetched later calls may have changed it."""
        if self.plan and self.strict:
            self.mismatch = True
            raise NoAnswer("not_run", "", "to be asked again without a plan")

    def _answer(self, data: bytes) -> Any:
        """Return the answer to a call of the entry point, prefetched or requested now."""
        index = self.asked
        self.asked += 1
        if self.pause and index == len(self.answers) < len(self.plan):
            self._receive_answers(len(self.plan))
        if index < len(self.plan) and self.plan[index] == data and not self.mismatch:
            answer = self.answers[index]
            self.count(self.calls[index])
            _print(self.outputs[index])
            if isinstance(answer, NoAnswer):
                self.failure = answer
                raise answer
            # A live answer belongs to a process; if that has ended, the call is made again.
            if index not in self.live_answers or self._is_alive(self.live_answers[index]):
                return answer
            return self._run_guarded(lambda: self._ask("call", data, -1))
        if index < len(self.plan) or self.released:
            self.mismatch = True
        if self.mismatch and self.strict:
            raise NoAnswer("not_run", "", "to be asked again without a plan")
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
            _print(self.session.take_output())

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


def _print(output: str) -> None:
    """Print what the program printed, where the test has redirected the output to see it."""
    # Otherwise it would only be dropped.
    if output and sys.stdout is not sys.__stdout__:
        sys.stdout.write(output.encode("utf-8", "replace").decode())
