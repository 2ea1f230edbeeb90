"""State of the evaluator's interpreter, and limits on its time, which the tests that it runs share."""

from __future__ import annotations

import _signal
import builtins
import sys

SLACK_SECONDS = 5.0
"""Wall time that a test may take beyond the program."""


class InterpreterSnapshot:
    """Snapshot of the interpreter state that tests may change, restored after each one."""

    def __init__(self) -> None:
        self.builtins = dict(vars(builtins))
        self.recursion_limit = sys.getrecursionlimit()

    def restore(self) -> None:
        """Undo the changes of the last test."""
        current = builtins.__dict__
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


def limit_time(processor_seconds: float, seconds: float) -> None:
    """End this process by a signal, which the trainer sees, when this much more time has passed; 0 for no limit.

    A test that does not end on the values of a program cannot be stopped in another way.
    """
    _signal.setitimer(_signal.ITIMER_PROF, processor_seconds)
    _signal.setitimer(_signal.ITIMER_REAL, seconds + SLACK_SECONDS if seconds else 0)
