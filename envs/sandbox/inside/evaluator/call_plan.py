"""Which calls a test will make, found out by running it without any program.

In place of the function the test gets one that notes its arguments and returns an object that nobody knows
anything about. So what is foreseen depends on the test alone, and tells a program, for which the calls are made
ahead, nothing about the answers of others.
"""

from __future__ import annotations

import _signal

from llm_decpomdp.envs.sandbox.inside.evaluator.proxies import Opaque
from llm_decpomdp.envs.sandbox.inside.protocol.codec import Unsendable, pack_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_TEXT = 200_000
"""Longest text of all calls that are foreseen, in bytes."""

MAX_SECONDS = 0.2
"""Processor time for a test that never ends without a program."""


class Enough(BaseException):
    """What follows cannot be foreseen."""


class Foresight:
    """Stands for the function of a program, and notes how it is called.

    Args:
        plain: See `pack_call`.
    """

    def __init__(self, plain: bool) -> None:
        self.plain = plain
        self.calls: list[bytes] = []
        self.room = MAX_TEXT

    def __call__(self, *args: Any, **kwargs: Any) -> Opaque:
        try:
            if self.room > 0:
                call = pack_call(args, kwargs, _unforeseeable, self.plain)
                self.room -= len(call)
                if self.room > 0:
                    self.calls.append(call)
        except (Enough, Unsendable, RecursionError):
            self.room = 0  # the calls after this one would come too early
        if self.room <= 0:
            raise Enough
        return Opaque("unknown")

    def __in_place__(self, *args: Any, **kwargs: Any) -> None:
        """A call for what it does to its arguments, which nobody knows either."""
        self(*args, **kwargs)

    def watch(self, run: Callable[[], None]) -> list[bytes]:
        """Run a test with this object in the function's place; the arguments of the calls, in order."""
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
        raise Enough


def _unforeseeable(value: Any, content: Any) -> Any:
    if content is None:
        raise Enough
    return content
