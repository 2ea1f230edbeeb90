"""The calls of one run of a test, and their answers, from the side of the test."""

from __future__ import annotations

import _thread

from llm_decpomdp.envs.sandbox.inside.evaluator.failures import Gone, rebuilt, refuse
from llm_decpomdp.envs.sandbox.inside.evaluator.objects import Objects
from llm_decpomdp.envs.sandbox.inside.evaluator.proxies import Ended
from llm_decpomdp.envs.sandbox.inside.evaluator.session import Session
from llm_decpomdp.envs.sandbox.inside.protocol.codec import DECODE_ERRORS, decode_call, pack_call
from llm_decpomdp.envs.sandbox.inside.protocol.containers import assign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from llm_decpomdp.envs.sandbox.inside.evaluator.proxies import Place

NO_ARGUMENTS = pack_call((), {}, refuse)


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
        own: Names that the task's own text gives a meaning, see `remote`.
    """

    def __init__(
        self,
        session: Session,
        plan: list[bytes],
        first: int,
        strict: bool,
        write_back: bool,
        plain: bool,
        own: frozenset[str] = frozenset(),
    ) -> None:
        self.session = session
        self.own = own
        self.plain = plain
        self.plan = plan
        self.first = first
        self.strict = strict
        self.write_back = write_back
        self.lock = _thread.RLock()  # a test may call from several threads
        self.answers: list[Any] = []
        self.calls: list[list[int]] = []
        """How often each helper ran for each answer."""
        self.count: Callable[[list[int]], object] = id
        """Told how often each helper has run for what the test asked just now."""
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
        self.objects = Objects(self)
        session.decode = self.objects.decode
        session.answer_callback = self.objects.answer_callback

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
                self.calls.append(self.session.take_calls())
            except Gone as gone:
                self.answers.append(gone.with_traceback(None))
                self.calls.append(self.session.take_calls())
                told = self.first if len(self.answers) < self.first else len(self.plan)
                if not self._start_again(self.plan[len(self.answers) : told]):
                    break
        if self.strict and any(index + 1 < len(self.plan) for index in self.living):
            # What the test takes from it, and when, may decide what the calls after it return.
            self.mismatch = True
        elif failure is None and self.plan and self.strict and not self.handed_out:
            self.released = True
            if not any(map(any, [self.session.loading_calls, *self.calls])):
                self.session.stop()  # it is cleared away while the test runs
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
        self.calls += [self.session.take_calls()] * (len(self.plan) - len(self.calls))
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
        data = pack_call(args, kwargs, self.objects, self.plain)
        if handle >= 0:
            self._check_alive(generation)
            answer = self._guarded(lambda: self._ask("call", data, handle))
        else:
            answer = self._answer(data)
        changed = answer[2]
        if changed is not None:
            self.changed = self.changed or not in_place
            if self.write_back or in_place:
                self._write_back(changed, args, kwargs)
        return self._value(answer)

    def _value(self, answer: Any) -> Any:
        """What the program has returned."""
        kind, content, _ = answer
        if kind == "error":
            raise self._raised(content)
        self._guarded(lambda: self.session.expect(kind == "value"))
        return content

    def operate(self, place: Place, operation: str, *args: Any) -> Any:
        """Ask an object of the program for something else than to be called; see `handles.OPERATIONS`."""
        _, handle, generation = place
        with self.lock:
            self._leave_plan()
            if handle >= 0:
                self._check_alive(generation)
            data = pack_call(args, {}, self.objects, self.plain)
            return self._value(self._guarded(lambda: self._ask(operation, data, handle)))

    def _leave_plan(self) -> None:
        """For what is asked of an object: calls that come only later have been made, and may have changed it."""
        if self.plan and self.strict:
            self.mismatch = True
            raise Gone("not_run", "", "to be asked again without a plan")

    def _answer(self, data: bytes) -> Any:
        """The answer to a call of the entry point: known already, or asked for now."""
        index = len(self.asked)
        self.asked.append(data)
        if index < len(self.plan) and self.plan[index] == data and not self.mismatch:
            answer = self.answers[index]
            self.count(self.calls[index])
            if isinstance(answer, Gone):
                self.gone = answer
                raise answer
            if index not in self.living or self._is_alive(self.living[index]):
                return answer
            return self._guarded(lambda: self._ask("call", data, -1))
        if index < len(self.plan) or self.released:
            self.mismatch = True
        if self.mismatch and self.strict:
            raise Gone("not_run", "", "to be asked again without a plan")
        return self._guarded(lambda: self._ask("call", data, -1))

    def _ask(self, operation: str, data: bytes, handle: int) -> Any:
        if self.session.reader is None:
            failure = self.session.failure(self.session.start([]))
            if failure is not None:
                raise Gone("error", failure[0], failure[1])
        self.objects.tell_changes()
        return self.session.ask(operation, data, handle)

    def next(self, handle: int, generation: int) -> Any:
        """The next item of an iterator; raises `Ended` after the last one."""
        self._check_alive(generation)
        kind, content, _ = self._guarded(lambda: self._ask("next", NO_ARGUMENTS, handle))
        if kind == "error":
            if isinstance(content, list) and content[5:6] == ["StopIteration"]:
                raise Ended
            raise self._raised(content)
        self._guarded(lambda: self.session.expect(kind == "value"))
        return content

    async def awaited(self, handle: int, generation: int) -> Any:
        """A coroutine of the program, run over there."""
        self._check_alive(generation)
        kind, content, _ = self._guarded(lambda: self._ask("run", NO_ARGUMENTS, handle))
        if kind == "error":
            raise self._raised(content)
        return content

    def _guarded(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except Gone as gone:
            self.gone = gone
            raise
        finally:
            self.count(self.session.take_calls())

    def _check_alive(self, generation: int) -> None:
        if not self._is_alive(generation):
            self._guarded(_raise_stale)

    def can_ask(self, handle: int, generation: int, needed: bool) -> bool:
        """Whether an object may be given back to the program; raises `Gone` if it is `needed` and may not."""
        if handle < 0:
            return True
        self._leave_plan()
        if needed:
            self._check_alive(generation)
        return self._is_alive(generation)

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


def _raise_stale() -> None:
    raise Gone("crashed", "", "the process that held this value has ended")
