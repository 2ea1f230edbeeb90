"""Call plan: the calls that a test will make, recorded by running it without any program.

In place of the function the test gets one that records its arguments and returns an opaque object. So the plan
depends on the test alone, and the prefetched calls tell a program nothing about the answers of other programs.
"""

from __future__ import annotations

import _signal
from collections.abc import Callable
from typing import Any

from llm_decpomdp.envs.sandbox.inside.evaluator.proxies import Opaque
from llm_decpomdp.envs.sandbox.inside.protocol.codec import Unsendable, pack_call

MAX_TEXT = 200_000
"""Total size of the calls in a plan, in bytes."""

MAX_SECONDS = 0.2
"""Processor time limit of a test that runs without a program, as it may never end."""


class PlanEnds(BaseException):
    """The calls after this point depend on answers."""


class CallRecorder:
    """Stand-in for the function of a program that records its calls.

    Args:
        plain: See `pack_call`.
    """

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
        return Opaque("unknown")

    def __in_place__(self, *args: Any, **kwargs: Any) -> None:
        """Record a call that is made to change its arguments."""
        self(*args, **kwargs)

    def record(self, run: Callable[[], None]) -> list[bytes]:
        """Run a test with this object as its function, and return the arguments of the calls, in order."""
        before = _signal.signal(_signal.SIGVTALRM, self._end)
        _signal.setitimer(_signal.ITIMER_VIRTUAL, MAX_SECONDS, MAX_SECONDS)
        try:
            run()
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
