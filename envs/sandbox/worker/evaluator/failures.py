"""Failures of a program to answer, and its exceptions as the tests see them."""

from __future__ import annotations

import _signal
import builtins
import os
import sys
from typing import Any

from llm_decpomdp.envs.sandbox.worker.evaluator.reports import MAX_TEXT, describe
from llm_decpomdp.envs.sandbox.worker.protocol.channel import OUT_OF_MEMORY
from llm_decpomdp.envs.sandbox.worker.protocol.libraries import ERROR_MODULES

# `all(candidate(x) == y for ...)` would be true if a call raised StopIteration.
NEVER_REBUILT = (StopIteration, StopAsyncIteration)
"""Exceptions that end loops, by which a program could end a test early."""

ABOUT_CODING = (UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError)


class NoAnswer(BaseException):
    """The program cannot answer: it hangs, has ended, or does not keep to the protocol."""

    def __init__(self, status: str, kind: str, text: str) -> None:
        super().__init__(text)
        self.remote = [kind, text, "", 0, status]


def failure_from_status(status: int) -> NoAnswer:
    """Return the failure that the exit status of a process means, as returned by `os.waitpid`."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == _signal.SIGXCPU:
            return NoAnswer("timeout", "TimeoutError", "the program's processor time is used up")
        kind = "forbidden" if number == _signal.SIGSYS else "crashed"
        name = _signal.strsignal(number)
        return NoAnswer(kind, "", f"the program was killed by signal {number} ({name})")
    code = os.WEXITSTATUS(status)
    if code == OUT_OF_MEMORY:
        return NoAnswer("memory", "MemoryError", "")
    return NoAnswer("crashed", "", f"the program ended its own process (exit code {code})")


class CandidateError(Exception):
    """Exception of the program that has no harmless builtin class."""


def rebuild_exception(failure: list[Any], own: dict[str, type[Exception]]) -> Exception:
    """Build an exception of the nearest harmless class from a program's description of it.

    Args:
        failure: Its type, text, origin, line and status, its nearest builtin class and its arguments; then, where
            it has them, its attributes, and the module and name of a library's class.
        own: Classes of exceptions that the task's prompt defines. A program can raise these in any case.
    """
    text = failure[1]
    base, arguments, attributes, module, name = (*failure[5:], *[None] * 5)[:5]
    if type(arguments) is not list:
        arguments = [text]
    # Tests may catch these by their class.
    special = own.get(failure[0]) or _find_library_exception(module, name)
    if special is not None:
        error = _build_without_init(special, arguments)
    else:
        error = _build_builtin(base, arguments, failure)
    if type(attributes) is dict:
        for key, value in attributes.items():
            # Not `__traceback__` or `args`, which mean something to the interpreter.
            if type(key) is str and not hasattr(Exception, key):
                vars(error)[key] = value
    error.remote = failure  # type: ignore[attr-defined]
    return error


def _find_library_exception(module: Any, name: Any) -> type[Exception] | None:
    """Return a library's class of exceptions that a program names, if it is one that may be built."""
    if type(name) is not str or type(module) is not str or module not in ERROR_MODULES:
        return None
    kind = vars(sys.modules[module]).get(name) if module in sys.modules else None
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else None


def _build_without_init(kind: type[Exception], arguments: list[Any]) -> Exception:
    """Build an exception with these arguments and without attributes; no code of its class is run."""
    builtin = next(c for c in kind.__mro__ if c.__module__ == "builtins")
    # `__init__` of a class of the prompt could have side effects here.
    error: Exception = builtin.__new__(kind, *arguments)
    return error


def _build_builtin(base: Any, arguments: list[Any], failure: list[Any]) -> Exception:
    """Build an exception of a builtin class, or of the nearest one that is harmless."""
    text = failure[1]
    kind = vars(builtins).get(base) if type(base) is str else None
    error: Exception | None = None
    if isinstance(kind, type) and issubclass(kind, Exception):
        if not issubclass(kind, NEVER_REBUILT):
            error = _new(kind, arguments, failure)
    return error or _new(CandidateError, arguments, failure) or CandidateError(text)


def exception_text(error: Exception) -> str:
    """Return the text of an exception; of one of the program's, as the program sent it."""
    remote: list[Any] | None = vars(error).get("remote")
    return str(error) if remote is None else remote[1]


def _new(kind: type[Exception], arguments: list[Any], failure: list[Any]) -> Exception | None:
    """Build an exception of a class, or of the nearest base class that takes these arguments."""
    for parent in kind.__mro__[:-2]:
        if not _is_sound(parent, arguments):
            continue
        try:
            error: Exception = parent(*arguments)
            if failure[0] == parent.__name__ and _has_text(error, failure[1]):
                return error
            return _build_with_text(parent, arguments, failure)
        except Exception:
            continue
    return None


def _has_text(error: Exception, text: str) -> bool:
    return str(error)[:MAX_TEXT] == text


def _build_with_text(kind: type[Exception], arguments: list[Any], failure: list[Any]) -> Exception:
    """Build an exception with the text of the program's, if it can have both that and its class."""
    name, text = failure[:2]
    if name != kind.__name__:  # a class of the program's own
        namespace = {"__str__": lambda _: text, "__module__": kind.__module__}
        name = name if name.isidentifier() else kind.__name__
        error: Exception = type(name, (kind,), namespace)(*arguments)
        return error
    try:
        error = kind(text)  # its arguments were too long, or no values
        if _has_text(error, text):
            return error
    except Exception:
        pass  # the class takes other arguments
    return kind(*arguments)


def _is_sound(kind: type, arguments: list[Any]) -> bool:
    """Check whether it is safe to build an exception of a class from these arguments.

    `SyntaxError` iterates over its second argument, which could take gigabytes or ask the program for more.
    Unicode errors show the character at a position, and the interpreter (3.6 to 3.13) reads there without checking
    that the position lies in the text: it could be anywhere in this process.
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
    """Describe an exception of the test, or one of the program that it passed on."""
    remote: list[Any] | None = vars(error).get("remote")
    return describe(error) if remote is None else remote


def refuse(value: Any, content: Any) -> Any:
    """Refuse values of a test that cannot be sent and have no base value, for `encode`."""
    if content is not None:
        return content
    raise TypeError(
        f"a {type(value).__name__} cannot be sent to the program; test it with split=False"
    )
