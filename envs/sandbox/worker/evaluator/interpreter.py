"""Run the code of tests in this interpreter, which holds the expected values, and undo what it changes here."""

from __future__ import annotations

import _signal
import builtins
import sys
from types import CodeType
from typing import Any

from llm_decpomdp.envs.sandbox.worker.evaluator.reports import (
    NEVER_REBUILT,
    AssertRecorder,
    StageRecorder,
)

MAX_CACHED = 1000  # tests whose code and call plans are cached


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
