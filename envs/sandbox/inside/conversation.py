"""The calls of one run of a test, and their answers, from the side of the test."""

from __future__ import annotations

import _thread

from llm_decpomdp.envs.sandbox.inside.codec import (
    DECODE_ERRORS,
    Decoder,
    decode_call,
    pack_call,
)
from llm_decpomdp.envs.sandbox.inside.failures import Gone, rebuilt, refuse
from llm_decpomdp.envs.sandbox.inside.remote import Ended, Function, Iterator, Opaque, assign
from llm_decpomdp.envs.sandbox.inside.reports import is_count
from llm_decpomdp.envs.sandbox.inside.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Conversation:
    """The calls of one run of a test: answered from what was asked ahead, or one by one.

    Args:
        session: The program's processes.
        plan: Encoded arguments of the calls that the test is expected to make, in order.
        first: How many of them are answered before the program is told the others.
        strict: Whether a call that differs from the plan spoils the run, because calls that the test does
            not make have been made.
        write_back: Whether the test sees what calls did to their arguments.
        plain: See `pack_call`.
    """

    def __init__(
        self,
        session: Session,
        plan: list[bytes],
        first: int,
        strict: bool,
        write_back: bool,
        plain: bool,
    ) -> None:
        self.session = session
        self.plain = plain
        self.plan = plan
        self.first = first
        self.strict = strict
        self.write_back = write_back
        self.lock = _thread.RLock()  # a test may call from several threads
        self.answers: list[Any] = []
        self.living: dict[int, int] = {}
        """Answers that hold something which lives in a process, and the generation of that process."""
        self.asked: list[bytes] = []
        self.mismatch = False
        self.handed_out = False
        """Whether the test holds something that only the program's process can go on with."""
        self.released = False
        """Whether the process has been let go because all is known that the test should ask."""
        self.changed = False
        """Whether a call changed its arguments."""
        self.gone: Gone | None = None
        """The last failure of the program to answer: a test that swallows it must not pass for that."""
        self.callbacks: list[Callable[..., Any]] = []
        session.decode = Decoder({"handle": (list, self._handle)}).decode
        session.answer_callback = self._answer_callback

    def ask_ahead(self) -> list[Any] | None:
        """Load the program and make the calls of the plan; why it cannot be loaded, or None."""
        told = self.first
        try:
            failure = self.session.failure(self.session.start(self.plan[:told]))
        except Gone as gone:
            return gone.remote
        seconds = self.session.limits["test_seconds"]
        while failure is None and len(self.answers) < len(self.plan):
            try:
                if len(self.answers) == told:
                    told = len(self.plan)
                    self.session.send(("ahead", self.plan[self.first :], -1))
                held = self.handed_out
                self.handed_out = False
                answer: Any = self.session.receive(seconds, quiet=True)
                if self.handed_out:
                    self.living[len(self.answers)] = self.session.generation
                self.handed_out = self.handed_out or held
                self.answers.append(answer)
            except Gone as gone:
                self.answers.append(gone.with_traceback(None))
                told = self.first if len(self.answers) < self.first else len(self.plan)
                if not self._start_again(self.plan[len(self.answers) : told]):
                    break
        if self.strict and any(index + 1 < len(self.plan) for index in self.living):
            # What the test takes from it, and when, may decide what the calls after it return.
            self.mismatch = True
        elif failure is None and self.plan and self.strict and not self.handed_out:
            self.session.stop()  # it is cleared away while the test runs
            self.released = True
        return failure

    def _start_again(self, calls: list[bytes]) -> bool:
        """Go on with a new process after one has failed; False if there is none or it does not load."""
        if not calls:
            return False
        try:
            failure = self.session.failure(self.session.start(calls))
            if failure is None:
                return True
            gone = Gone("error", failure[0], failure[1])
        except Gone as error:
            gone = error
        self.answers += [gone] * (len(self.plan) - len(self.answers))
        return False

    def call(
        self,
        handle: int,
        generation: int,
        args: Any,
        kwargs: dict[str, Any],
        in_place: bool = False,
    ) -> Any:
        """Call the program's function, or a function that it returned.

        A call that the test makes `in_place`, without looking at its result, may change its arguments. What
        another call does to them is shown to the test once, and hidden from it once: it must pass both times,
        or `candidate(xs) == sorted(xs)` could be made true by emptying `xs`.
        """
        with self.lock:
            return self._call(handle, generation, args, kwargs, in_place)

    def _call(
        self, handle: int, generation: int, args: Any, kwargs: dict[str, Any], in_place: bool
    ) -> Any:
        data = pack_call(args, kwargs, self._callback, self.plain)
        if handle >= 0:
            self._check_alive(generation)
            answer = self._guarded(lambda: self.session.ask("call", data, handle))
        else:
            answer = self._answer(data)
        kind, content, changed = answer
        if changed is not None:
            self.changed = self.changed or not in_place
            if self.write_back or in_place:
                self._write_back(changed, args, kwargs)
        if kind == "error":
            raise self._raised(content)
        self._guarded(lambda: self.session.expect(kind == "value"))
        return content

    def _answer(self, data: bytes) -> Any:
        """The answer to a call of the entry point: known already, or asked for now."""
        index = len(self.asked)
        self.asked.append(data)
        if index < len(self.plan) and self.plan[index] == data and not self.mismatch:
            answer = self.answers[index]
            if isinstance(answer, Gone):
                self.gone = answer
                raise answer
            if index not in self.living or self._is_alive(self.living[index]):
                return answer
            return self._guarded(lambda: self._ask(data))
        if index < len(self.plan) or self.released:
            self.mismatch = True
        if self.mismatch and self.strict:
            raise Gone("not_run", "", "to be asked again without a plan")
        return self._guarded(lambda: self._ask(data))

    def _ask(self, data: bytes) -> Any:
        if self.session.reader is None:
            failure = self.session.failure(self.session.start([]))
            if failure is not None:
                self.session.stop()
                raise Gone("error", failure[0], failure[1])
        return self.session.ask("call", data, -1)

    def next(self, handle: int, generation: int) -> Any:
        """The next item of an iterator; raises `Ended` after the last one."""
        self._check_alive(generation)
        kind, content, _ = self._guarded(lambda: self.session.ask("next", b"", handle))
        if kind == "error":
            if isinstance(content, list) and content[5:6] == ["StopIteration"]:
                raise Ended
            raise self._raised(content)
        self._guarded(lambda: self.session.expect(kind == "value"))
        return content

    async def _awaited(self, handle: int, generation: int) -> Any:
        """A coroutine of the program, run over there."""
        self._check_alive(generation)
        kind, content, _ = self._guarded(lambda: self.session.ask("run", b"", handle))
        if kind == "error":
            raise self._raised(content)
        return content

    def _guarded(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except Gone as gone:
            self.gone = gone
            raise

    def _check_alive(self, generation: int) -> None:
        if not self._is_alive(generation):
            self._guarded(_raise_stale)

    def _is_alive(self, generation: int) -> bool:
        """Whether this process is there, and no newer one in its place."""
        return generation == self.session.generation and self.session.reader is not None

    def _write_back(self, changed: Any, args: Any, kwargs: dict[str, Any]) -> None:
        try:
            new_args, new_kwargs = decode_call(changed)
            pairs = [*zip(args, new_args, strict=True)]
            pairs += [(kwargs[name], value) for name, value in new_kwargs.items()]
        except DECODE_ERRORS:
            self._guarded(lambda: self.session.expect(False))
        for old, new in pairs:
            assign(old, new)

    def _raised(self, claim: Any) -> Exception:
        """The program's exception, as far as it means no harm."""
        return rebuilt(self._guarded(lambda: self.session.failure(claim)))

    # Values that are no data

    def _callback(self, value: Any) -> Any:
        if not callable(value):
            refuse(value)
        self.callbacks.append(value)
        return {"callback": len(self.callbacks) - 1}

    def _answer_callback(self, content: Any) -> Any:
        if type(content) is not list or len(content) != 2 or not is_count(content[0]):
            raise TypeError("not a call of a function of the test")
        args, kwargs = decode_call(content[1])
        return self.callbacks[content[0]](*args, **kwargs)

    def _handle(self, content: list[Any]) -> Any:
        kind, number, name = content
        if type(number) is not int or type(name) is not str:
            raise TypeError("not a handle")
        self.handed_out = self.handed_out or kind != "object"
        if kind == "function":
            return Function(self, number, self.session.generation, name)
        if kind == "iterator":
            return Iterator(self, number, self.session.generation)
        if kind == "coroutine":
            return self._awaited(number, self.session.generation)
        return Opaque(name)


def _raise_stale() -> None:
    raise Gone("crashed", "", "the process that held this value has ended")
