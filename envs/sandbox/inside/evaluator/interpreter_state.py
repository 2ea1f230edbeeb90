"""The evaluator's own interpreter and time, which the tests that it runs use too."""

from __future__ import annotations

import _signal
import builtins
import sys

SLACK_SECONDS = 5.0
"""How much longer than a program a test may wait."""


class OwnState:
    """What tests may change in this process, and the next ones should find as it was."""

    def __init__(self) -> None:
        self.builtins = dict(vars(builtins))
        self.recursion_limit = sys.getrecursionlimit()

    def restore(self) -> None:
        """Undo what the test before has left."""
        now = builtins.__dict__
        if now != self.builtins:
            now.update(self.builtins)
            for name in now.keys() - self.builtins.keys():
                del now[name]
        sys.setrecursionlimit(self.recursion_limit)
        tempfile = sys.modules.get("tempfile")
        if tempfile is not None:
            vars(tempfile)["tempdir"] = None  # it was the program's folder
        decimal = sys.modules.get("decimal")
        if decimal is not None:
            decimal.setcontext(decimal.Context())


def limit_own_time(processor_seconds: float, seconds: float) -> None:
    """End this process when it has used up so much more; 0 for no limit. The caller sees the signal.

    A test that does not end on what a program returned cannot be stopped in another way.
    """
    _signal.setitimer(_signal.ITIMER_PROF, processor_seconds)
    _signal.setitimer(_signal.ITIMER_REAL, seconds + SLACK_SECONDS if seconds else 0)
