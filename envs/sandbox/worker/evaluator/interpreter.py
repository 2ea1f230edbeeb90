"""Run the code of tests in this interpreter, which holds the expected values, and undo what it changes here.

The calls that a test will make are known ahead from one run without any program: in place of the function the test
gets one that records its arguments and returns an opaque object. So the plan depends on the test alone, and the
prefetched calls tell a program nothing about the answers of other programs.
"""

from __future__ import annotations

import _signal
import builtins
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from llm_decpomdp.envs.sandbox.worker.evaluator.proxies import Opaque
from llm_decpomdp.envs.sandbox.worker.evaluator.reports import (
    NEVER_REBUILT,
    AssertRecorder,
    StageRecorder,
)
from llm_decpomdp.envs.sandbox.worker.protocol.codec import Unsendable, pack_call

MAX_CACHED = 1000  # tests whose code and call plans are cached
SLACK_SECONDS = 5.0  # wall time that a test may take beyond the program
MUTANT_SLACK_SECONDS = 1.0  # the same in a mutant run, with which the job's time may end
MAX_TEXT = 200_000  # total size of the calls in a plan, in bytes
# Tests make their calls within milliseconds; a test that waits for an answer never ends.
MAX_SECONDS = 0.2  # processor time limit of a test that runs without a program, as it may never end


# The calls that a test is expected to make, and for each stage the number of calls before it.
Plan = tuple[list[bytes], dict[int, int]]


class PlanEnds(BaseException):
    """The calls after this point depend on answers."""


class Interpreter:
    """This process as an interpreter of tests; what they may change in it is restored after each one."""

    def __init__(self) -> None:
        self.codes: dict[str, CodeType] = {}
        self.builtins = dict(vars(builtins))  # from before any test
        self.recursion_limit = sys.getrecursionlimit()

    def check(
        self,
        job: dict[str, Any],
        function: Any,
        record: AssertRecorder,
        stage: StageRecorder,
        exceptions: dict[str, type[Exception]],
    ) -> None:
        """Run a test with a stand-in for the program's function; `exceptions` takes the prompt's own classes."""
        scope: dict[str, Any] = {"__name__": "__test__"}
        try:
            exec(self._compile(job["preamble"], "<prompt>"), scope)
            for name, value in scope.items():
                if isinstance(value, type) and value.__module__ == scope["__name__"]:
                    if issubclass(value, Exception) and not issubclass(value, NEVER_REBUILT):
                        exceptions[name] = value
            scope |= {job["entry_point"]: function, "__record__": record, "__stage__": stage}
            exec(self._compile(job["tests"], "<tests>"), scope)
            scope["__check__"](function, record, stage)
        finally:
            self._restore()

    def call_plan(self, job: dict[str, Any], plain: bool) -> Plan:
        """Record the calls that a test makes whatever the program answers; see `pack_call` for `plain`."""
        recorder = CallRecorder(plain)
        begins: dict[int, int] = {}

        def note(event: str, number: int, failure: object) -> None:
            # Outcomes mean nothing without a program.
            begins.setdefault(number if event == "stage" else -1, len(recorder.calls))

        def ignore(*report: object) -> None:
            return None

        record, stage = AssertRecorder(ignore, ignore), StageRecorder(note, ignore, set())
        return recorder.record(lambda: self.check(job, recorder, record, stage, {})), begins

    def _compile(self, source: str, name: str) -> CodeType:
        if "random" in source:
            import random

            # Tests with random inputs make the same calls for every program, and match their plan.
            random.seed(0)
        code = self.codes.get(source)
        if code is None:
            code = compile(source, name, "exec", dont_inherit=True)
            keep(self.codes, source, code)
        return code

    def _restore(self) -> None:
        """Undo the changes of the last test."""
        # A test may replace builtins, such as `print`.
        current = vars(builtins)
        if current != self.builtins:
            current.update(self.builtins)
            for name in current.keys() - self.builtins.keys():
                del current[name]
        sys.setrecursionlimit(self.recursion_limit)
        tempfile = sys.modules.get("tempfile")
        if tempfile is not None:
            vars(tempfile)["tempdir"] = None  # it was the program's folder
        decimal = sys.modules.get("decimal")
        if decimal is not None:
            decimal.setcontext(decimal.Context())


class CallRecorder:
    """Stand-in for the function of a program that records its calls; see `pack_call` for `plain`."""

    def __init__(self, plain: bool) -> None:
        self.plain = plain
        self.calls: list[bytes] = []
        self.room = MAX_TEXT

    def __call__(self, *args: Any, **kwargs: Any) -> Opaque:
        """Record a call."""
        try:
            if self.room > 0:
                call = pack_call(args, kwargs, _refuse_opaque, self.plain)
                self.room -= len(call)
                if self.room > 0:
                    self.calls.append(call)
        except (PlanEnds, Unsendable, RecursionError):
            self.room = 0  # later calls would come too early
        if self.room <= 0:
            raise PlanEnds
        # A test that computes with the result fails there; the calls of its later stages are still recorded.
        return Opaque("unknown")

    def __call_in_place__(self, *args: Any, **kwargs: Any) -> None:
        self(*args, **kwargs)

    def record(self, run: Callable[[], None]) -> list[bytes]:
        """Run a test with this object as its function, and return the arguments of the calls, in order."""
        before = _signal.signal(_signal.SIGVTALRM, self._end)
        _signal.setitimer(_signal.ITIMER_VIRTUAL, MAX_SECONDS, MAX_SECONDS)
        try:
            run()
        # Also PlanEnds, and what tests raise by `sys.exit`.
        except BaseException:
            pass  # most tests fail without a program
        finally:
            _signal.setitimer(_signal.ITIMER_VIRTUAL, 0)
            _signal.signal(_signal.SIGVTALRM, before)
        return self.calls

    def _end(self, number: int, frame: object) -> None:
        self.room = 0
        raise PlanEnds


def _refuse_opaque(value: Any, content: Any) -> Any:
    if content is None:
        raise PlanEnds
    return content


def keep(cache: dict[str, Any], key: str, value: Any) -> None:
    """Add a value to a cache, and drop the oldest one."""
    cache[key] = value
    if len(cache) > MAX_CACHED:
        del cache[next(iter(cache))]


def limit_time(processor_seconds: float, seconds: float) -> None:
    """End this process by a signal, which the caller sees, when this much more time has passed; 0 for no limit.

    A test that does not end on the values of a program cannot be stopped in another way.
    """
    # The default action of both signals ends the process; a handler in Python would not run in a long call in C.
    _signal.setitimer(_signal.ITIMER_PROF, processor_seconds)
    _signal.setitimer(_signal.ITIMER_REAL, seconds)
