"""The ways in which a program fails to answer, and its exceptions on the side of the tests."""

from __future__ import annotations

import _signal
import builtins
import os

from llm_decpomdp.envs.sandbox.inside.evaluator.reports import MAX_TEXT, describe
from llm_decpomdp.envs.sandbox.inside.protocol.channel import OUT_OF_MEMORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEVER_REBUILT = (StopIteration, StopAsyncIteration)
"""Exceptions with a meaning for loops, through which a test could be made to end early."""


ABOUT_CODING = (UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError)


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
    text = failure[1]
    base, arguments = (*failure[5:], None, None)[:2]
    if type(arguments) is not list:
        arguments = [text]
    kind = vars(builtins).get(base) if type(base) is str else None
    error: Exception | None = None
    if isinstance(kind, type) and issubclass(kind, Exception):
        if not issubclass(kind, NEVER_REBUILT):
            error = _new(kind, arguments, failure)
    error = error or _new(CandidateError, arguments, failure) or CandidateError(text)
    error.remote = failure  # type: ignore[attr-defined]
    return error


def said(error: Exception) -> str:
    """The text of an exception; of one of the program's, as the program has sent it."""
    remote: list[Any] | None = vars(error).get("remote")
    return str(error) if remote is None else remote[1]


def _new(kind: type[Exception], arguments: list[Any], failure: list[Any]) -> Exception | None:
    """An exception of a class, or of the nearest one above it that takes these arguments."""
    for parent in kind.__mro__[:-2]:
        if not _is_sound(parent, arguments):
            continue
        try:
            error: Exception = parent(*arguments)
            return error if _says(error, failure[1]) else _saying(parent, arguments, failure)
        except Exception:
            continue
    return None


def _says(error: Exception, text: str) -> bool:
    return str(error)[:MAX_TEXT] == text


def _saying(kind: type[Exception], arguments: list[Any], failure: list[Any]) -> Exception:
    """An exception with the text that the program's had, if it can have both that and its class."""
    name, text = failure[:2]
    if name != kind.__name__:  # a class of the program's own, with a text of its own
        own = {"__str__": lambda _: text, "__module__": kind.__module__}
        error: Exception = type(kind.__name__, (kind,), own)(*arguments)
        return error
    try:
        error = kind(text)  # its arguments were too long, or no values
        if _says(error, text):
            return error
    except Exception:
        pass  # the class takes other arguments
    return kind(*arguments)


def _is_sound(kind: type, arguments: list[Any]) -> bool:
    """Whether an exception of a class may be made of these arguments.

    One about syntax goes through its second argument, which could take gigabytes or ask the program for more.
    One about text that cannot be encoded or decoded shows what is at a place of it, and the interpreter (3.6 to
    3.13) reads there without a look at whether the place lies in the text: that is, anywhere in this process.
    """
    if issubclass(kind, SyntaxError):
        return len(arguments) < 2 or type(arguments[1]) is tuple
    if not issubclass(kind, ABOUT_CODING):
        return True
    if len(arguments) < 4:
        return False  # no class takes so few
    whole, start, end = arguments[-4:-1]
    if type(whole) not in (str, bytes, bytearray) or type(start) is not int or type(end) is not int:
        return False
    return 0 <= start <= end <= len(whole)


def describe_any(error: BaseException) -> list[Any]:
    """An exception of the test or, told by it, of the program."""
    remote: list[Any] | None = vars(error).get("remote")
    return describe(error) if remote is None else remote


def refuse(value: Any, content: Any) -> Any:
    """For `encode`: values of a test that no program can be given, unless they have a base value."""
    if content is not None:
        return content
    raise TypeError(
        f"a {type(value).__name__} cannot be sent to the program; test it with split=False"
    )
