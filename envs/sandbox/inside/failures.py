"""The ways in which a program fails to answer, and its exceptions on the side of the tests."""

from __future__ import annotations

import _signal
import builtins
import os

from llm_decpomdp.envs.sandbox.inside.channel import OUT_OF_MEMORY
from llm_decpomdp.envs.sandbox.inside.reports import describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEVER_REBUILT = (StopIteration, StopAsyncIteration)
"""Exceptions with a meaning for loops, through which a test could be made to end early."""


class Gone(BaseException):
    """The program cannot answer: it hangs, has ended, or does not keep to the protocol."""

    def __init__(self, status: str, kind: str, text: str) -> None:
        super().__init__(text)
        self.remote = [kind, text, "", 0, status]


def of_exit(status: int) -> Gone:
    """What it means that a process has ended by itself, by its status as of `os.waitpid`."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == _signal.SIGXCPU:
            return Gone("timeout", "TimeoutError", "the program's processor time is used up")
        kind = "forbidden" if number == _signal.SIGSYS else "crashed"
        name = _signal.strsignal(number)
        return Gone(kind, "", f"the program was killed by signal {number} ({name})")
    code = os.WEXITSTATUS(status)
    if code == OUT_OF_MEMORY:
        return Gone("memory", "MemoryError", "")
    return Gone("crashed", "", f"the program ended its own process (exit code {code})")


class CandidateError(Exception):
    """An exception of the program that has no harmless builtin class."""


def rebuilt(failure: list[Any]) -> Exception:
    """An exception of the nearest builtin class that means no harm, from what a program says about it."""
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


def _new(kind: type[Exception], arguments: list[Any]) -> Exception | None:
    """An exception of a class, or of the nearest one above it that takes these arguments."""
    for parent in kind.__mro__[:-2]:
        try:
            error: Exception = parent(*arguments)
        except Exception:
            continue
        return error
    return None


def describe_any(error: BaseException) -> list[Any]:
    """An exception of the test or, told by it, of the program."""
    remote: list[Any] | None = vars(error).get("remote")
    return describe(error) if remote is None else remote


def refuse(value: Any) -> Any:
    """For values of a test that no program can be given."""
    raise TypeError(
        f"a {type(value).__name__} cannot be sent to the program; test it with split=False"
    )
