"""What stands for the program's function, and for what it returns, on the side of the tests."""

from __future__ import annotations

import builtins
from collections import deque

from llm_decpomdp.envs.sandbox.inside.codec import DECODE_ERRORS, Decoder, pack_call
from llm_decpomdp.envs.sandbox.inside.reports import describe
from llm_decpomdp.envs.sandbox.inside.session import Gone, Session, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NEVER_REBUILT = (StopIteration, StopAsyncIteration)
"""Exceptions with a meaning for loops, through which a test could be made to end early."""

CONTAINERS = (list, tuple, dict, set, bytearray, deque)


class Ended(Exception):
    """An iterator has no more items."""


class CandidateError(Exception):
    """An exception of the program that has no harmless builtin class."""


class Conversation:
    """The calls of one run of a test: answered from what was asked ahead, or one by one.

    Args:
        session: The program's processes.
        plan: Encoded arguments of the calls that the test is expected to make, in order.
        strict: Whether a call that differs from the plan spoils the run, because calls that the test does
            not make have been made.
        write_back: Whether the test sees what calls did to their arguments.
        plain: See `pack_call`.
    """

    def __init__(
        self, session: Session, plan: list[bytes], strict: bool, write_back: bool, plain: bool
    ) -> None:
        self.session = session
        self.plain = plain
        self.plan = plan
        self.strict = strict
        self.write_back = write_back
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
        session.decode = Decoder({"handle": self._handle}).decode
        session.answer_callback = self._answer_callback

    def ask_ahead(self) -> list[Any] | None:
        """Load the program and make the calls of the plan; why it cannot be loaded, or None."""
        try:
            failure = self.session.failure(self.session.start(self.plan))
        except Gone as gone:
            return gone.remote
        seconds = self.session.limits["test_seconds"]
        while failure is None and len(self.answers) < len(self.plan):
            try:
                held = self.handed_out
                self.handed_out = False
                answer: Any = self.session.receive(seconds, quiet=True)
                if self.handed_out:
                    self.living[len(self.answers)] = self.session.generation
                self.handed_out = self.handed_out or held
                self.answers.append(answer)
            except Gone as gone:
                self.answers.append(gone.with_traceback(None))
                rest = self.plan[len(self.answers) :]
                if rest and not self._start_again(rest):
                    break
        if failure is None and self.plan and self.strict and not self.handed_out:
            self.session.stop()  # it is cleared away while the test runs
            self.released = True
        return failure

    def _start_again(self, rest: list[bytes]) -> bool:
        """Go on with a new process after one has failed; False if there is none or it does not load."""
        try:
            failure = self.session.failure(self.session.start(rest))
            if failure is None:
                return True
            gone = Gone("error", failure[0], failure[1])
        except Gone as error:
            gone = error
        self.answers += [gone] * len(rest)
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
            raise self._rebuilt(content)
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
            raise self._rebuilt(content)
        self._guarded(lambda: self.session.expect(kind == "value"))
        return content

    async def _awaited(self, handle: int, generation: int) -> Any:
        """A coroutine of the program, run over there."""
        self._check_alive(generation)
        kind, content, _ = self._guarded(lambda: self.session.ask("run", b"", handle))
        if kind == "error":
            raise self._rebuilt(content)
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
            new_args, new_kwargs = changed
            pairs = [*zip(args, new_args, strict=True)]
            pairs += [(kwargs[name], value) for name, value in new_kwargs]
        except DECODE_ERRORS:
            self._guarded(lambda: self.session.expect(False))
        for old, new in pairs:
            assign(old, new)

    def _rebuilt(self, claim: Any) -> Exception:
        """The program's exception, of the nearest builtin class that means no harm."""
        failure = self._guarded(lambda: self.session.failure(claim))
        base, arguments = (*failure[5:], None, None)[:2]
        if not isinstance(arguments, list):
            arguments = [failure[1]]
        kind = vars(builtins).get(str(base))
        error: Exception = CandidateError(*arguments)
        if isinstance(kind, type) and issubclass(kind, Exception):
            if not issubclass(kind, NEVER_REBUILT):
                error = _new(kind, arguments) or error
        error.remote = failure  # type: ignore[attr-defined]
        return error

    # Values that are no data

    def _callback(self, value: Any) -> Any:
        if not callable(value):
            refuse(value)
        self.callbacks.append(value)
        return {"callback": len(self.callbacks) - 1}

    def _answer_callback(self, content: Any) -> Any:
        number, call = content
        args, kwargs = call
        return self.callbacks[number](*args, **dict(kwargs))

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


def _new(kind: type[Exception], arguments: list[Any]) -> Exception | None:
    """An exception of a class, or of the nearest one above it that takes these arguments."""
    for parent in kind.__mro__[:-2]:
        try:
            error: Exception = parent(*arguments)
        except Exception:
            continue
        return error
    return None


def _raise_stale() -> None:
    raise Gone("crashed", "", "the process that held this value has ended")


class Function:
    """A function of the program."""

    def __init__(self, conversation: Conversation, handle: int, generation: int, name: str) -> None:
        self._place = (conversation, handle, generation)
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        conversation, handle, generation = self._place
        return conversation.call(handle, generation, args, kwargs)

    def in_place(self, *args: Any, **kwargs: Any) -> None:
        """Call the function for what it does to its arguments."""
        conversation, handle, generation = self._place
        conversation.call(handle, generation, args, kwargs, in_place=True)


class Iterator:
    """An iterator of the program; each item is fetched when it is needed."""

    def __init__(self, conversation: Conversation, handle: int, generation: int) -> None:
        self._place = (conversation, handle, generation)
        self._ended = False

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        conversation, handle, generation = self._place
        try:
            return conversation.next(handle, generation)
        except Ended:
            self._ended = True
            raise StopIteration from None
        except Exception:
            self._ended = True
            raise


class Opaque:
    """An object of the program that cannot be sent; it equals nothing but itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<{self._name} object>"


def assign(old: Any, new: Any) -> None:
    """Make a container's content that of another one of the same type, and that of containers in it."""
    if type(old) is not type(new):
        return
    if isinstance(old, list | tuple) and len(old) == len(new):
        for place, (inner_old, inner_new) in enumerate(zip(old, new, strict=True)):
            if isinstance(inner_old, CONTAINERS) and type(inner_old) is type(inner_new):
                assign(inner_old, inner_new)
            elif isinstance(old, list):
                old[place] = inner_new
    elif isinstance(old, list | bytearray):
        old[:] = new
    elif isinstance(old, dict | set):
        old.clear()
        old.update(new)
    elif isinstance(old, deque):
        old.clear()
        old.extend(new)


def describe_any(error: BaseException) -> list[Any]:
    """An exception of the test or, told by it, of the program."""
    remote: list[Any] | None = vars(error).get("remote")
    return describe(error) if remote is None else remote
