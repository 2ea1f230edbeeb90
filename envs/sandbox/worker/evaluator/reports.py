"""Reports of an instrumented test while it runs, the outcomes that follow from them, and exceptions as lists.

The same recorders serve both ways of grading: in the evaluator, where they report straight to `Findings`, and in
the program's process, where their reports are sent to `Findings` as messages that may be forged.
"""

from __future__ import annotations

import _signal
import builtins
import os
import sys
from collections.abc import Callable, Sequence, Set
from typing import Any

from llm_decpomdp.envs.sandbox.worker.protocol.channel import OUT_OF_MEMORY
from llm_decpomdp.envs.sandbox.worker.protocol.libraries import ERROR_MODULES

MAX_TEXT = 300  # longest text of an exception that is kept, in characters
MAX_NAME = 200  # longest name of a type or of an agent
# Integers in JSON may have any length.
MAX_COUNT = 2**40
# What seccomp, Landlock and the limit on processes make of a refused call.
FORBIDDEN = ("PermissionError", "BlockingIOError")
# Exceptions that end loops, by which a program could end a test early. `all(candidate(x) == y for ...)` would be
# true if a call raised StopIteration.
NEVER_REBUILT = (StopIteration, StopAsyncIteration)


class AssertRecorder:
    """Reports an assert the first time that it holds and that it fails, and counts how often it is reached."""

    def __init__(self, send: Callable[..., None], describe: Callable[[BaseException], Any]) -> None:
        self.send = send
        self.describe = describe
        self.reached: dict[int, int] = {}
        self.failed: set[int] = set()

    def __call__(self, test: int, outcome: bool | BaseException, message: object = None) -> None:
        """Report one evaluation of an assert."""
        times = self.reached[test] = self.reached.get(test, 0) + 1
        # A report for each iteration of a loop would take longer than the test.
        if test in self.failed or (outcome is True and times > 1):
            return
        if outcome is True:
            return self.send("test", test, None)
        self.failed.add(test)
        if not isinstance(outcome, BaseException):
            text = "the assertion does not hold" if message is None else str(message)
            outcome = AssertionError(text)
        self.send("test", test, self.describe(outcome))


class StageRecorder:
    """Runs the stages of a test; an exception ends its own stage only."""

    def __init__(
        self, send: Callable[..., None], describe: Callable[[BaseException], Any], skipped: Set[int]
    ) -> None:
        self.send = send
        self.describe = describe
        self.skipped = skipped
        self.number = -1

    def runs(self, number: int) -> bool:
        """Begin a stage, unless it is to be skipped."""
        if number in self.skipped:
            return False
        self.number = number
        self.send("stage", number, None)
        return True

    def __enter__(self) -> None:
        """Do nothing: `runs` has begun the stage."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if error is not None:
            self.send("ended", self.number, self.describe(error))
        return True


class Findings:
    """The reports on one program so far; `job` has the fields of `Tests`, `expected` says which should pass."""

    def __init__(self, job: dict[str, Any], expected: Sequence[bool] = ()) -> None:
        self.expected = expected
        self.stages: list[int] = job["stages"]
        self.num_stages: int = job["num_stages"]
        self.stage_reads: list[list[str]] = job["stage_reads"]
        self.stage_writes: list[list[str]] = job["stage_writes"]
        self.guards: list[int] = job["guards"]
        self.minimum: list[int] = job["minimum"]
        self.judges_result: list[bool] = job["judges_result"]
        self.tests: dict[int, Any] = {}
        self.stage_errors: dict[int, Any] = {}
        self.finished: set[int] = set()
        self.reached: dict[int, int] = {}
        self.stage: int | None = None
        self.error: Any = None
        self.veto: list[Any] = []
        self.calls: dict[int, list[int]] = {}  # calls of each helper, by stage

    def count(self, calls: list[int]) -> None:
        """Add calls of the helpers to the current stage."""
        if any(calls):
            stage = -1 if self.stage is None else self.stage
            before = self.calls.get(stage, [0] * len(calls))
            self.calls[stage] = [old + new for old, new in zip(before, calls, strict=True)]

    def note(self, event: str, number: int, failure: Any) -> None:
        """Record a report: `stage`, `test`, `ended`, or `swallowed`."""
        if event == "test":
            self.reached.setdefault(number, 1)
            if self.tests.get(number) is None:
                self.tests[number] = failure
        elif event == "stage":
            if self.stage is not None:
                self.finished.add(self.stage)
            self.stage = number
        else:
            self.stage_errors.setdefault(number, failure)

    def done(self, reached: dict[int, int]) -> None:
        """Record the end of the test."""
        self.reached |= reached
        self.finished |= {-1, -1 if self.stage is None else self.stage}

    def has_unexpected_failure(self) -> bool:
        """Check whether a test has failed that is expected to pass."""
        return any(
            should_pass
            and (self.tests.get(test) is not None or self.stages[test] in self.stage_errors)
            for test, should_pass in enumerate(self.expected)
        )

    def add_veto(self, hidden: Findings) -> None:
        """Add a veto by a run in which changes of arguments were hidden from the tests.

        A test that judges results of calls must pass both times. One that only looks at their arguments is there
        to see the change.
        """
        pairs = zip(self.outcomes(), hidden.outcomes(), self.judges_result, strict=True)
        self.veto = [second if judges else first for first, second, judges in pairs]

    def outcomes(self) -> list[list[Any]]:
        """Return the outcome of each test: [passed, status, message, origin, line]."""
        # The failure of each failed stage: its own, or that of a stage that sets a variable of it.
        failures = dict(self.stage_errors)
        spoiled: dict[str, Any] = {}
        for stage in range(self.num_stages) if failures else ():
            for name in self.stage_reads[stage]:
                if name in spoiled:
                    failures.setdefault(stage, spoiled[name])
            if stage in failures:
                for name in self.stage_writes[stage]:
                    spoiled.setdefault(name, failures[stage])
        outcomes = [self._outcome(test, failures) for test in range(len(self.stages))]
        pairs = zip(outcomes, self.veto or outcomes, strict=True)
        return [veto if outcome[0] else outcome for outcome, veto in pairs]

    def _outcome(self, test: int, failures: dict[int, Any]) -> list[Any]:
        stage = self.stages[test]
        failure = self.tests.get(test) or self.error or failures.get(stage)
        if failure is not None:
            return failed_outcome(failure)
        if test not in self.tests:
            if test in self.guards and stage in self.finished:
                return [True, "passed", "", "", 0]
            return [False, "not_run", "the test was not reached", "", 0]
        times = self.reached.get(test, 0)
        if times < self.minimum[test]:
            text = f"the test was reached {times} times; the reference reaches it {self.minimum[test]} times"
            return [False, "not_run", text, "", 0]
        return [True, "passed", "", "", 0]


def failed_outcome(failure: list[Any]) -> list[Any]:
    """Turn a description of a failure into an outcome: [passed, status, message, origin, line]."""
    kind, text, origin, line, status = failure[:5]
    if not status:
        status = "failed" if kind == "AssertionError" and not origin else "error"
        if kind == "MemoryError":
            status = "memory"
        elif kind in FORBIDDEN:
            status = "forbidden"
    # One line: a text of several could pass for lines of the feedback that shows it.
    message = " ".join((f"{kind}: {text}" if kind and text else kind or text).split())
    return [False, status, message.encode("utf-8", "replace").decode(), origin, line]


def describe(error: BaseException) -> list[Any]:
    """Describe an exception as JSON: [type, text, origin, line, status].

    `origin` and `line` are the last position in an agent's code that it passed through; an empty status stands for
    the one that follows from the type.
    """
    try:
        text = str(error)[:MAX_TEXT]
    except BaseException:  # `__str__` of a program's class may even raise SystemExit
        text = ""
    origin, line = "", 0
    traceback = error.__traceback__
    while traceback is not None:
        filename = traceback.tb_frame.f_code.co_filename
        if filename.startswith("<") and filename != "<tests>" and "frozen" not in filename:
            origin, line = filename[1:-1][:MAX_NAME], traceback.tb_lineno
        traceback = traceback.tb_next
    return [type(error).__name__[:60], text, origin, line, ""]


def is_failure(claim: Any) -> bool:
    """Check whether a value that a program sent is a description of an exception."""
    if not isinstance(claim, list) or len(claim) < 5:
        return False
    kind, text, origin, line, status = claim[:5]
    # A forged text of megabytes would be kept in every cached result and shown in prompts.
    if not all(type(part) is str for part in (kind, text, origin, status)) or not is_count(line):
        return False
    return max(len(kind), len(origin)) <= MAX_NAME and len(text) <= MAX_TEXT


def is_count(claim: Any) -> bool:
    """Check whether a value that a program sent is a count."""
    return type(claim) is int and 0 <= claim < MAX_COUNT


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

    `failure` has type, text, origin, line and status, the nearest builtin class and the arguments; then, where it
    has them, its attributes, and the module and name of a library's class. `own` are the classes that the task's
    prompt defines: a program can raise these in any case.
    """
    base, arguments, attributes, module, name = (*failure[5:], *[None] * 5)[:5]
    if type(arguments) is not list:
        arguments = [failure[1]]
    # Tests may catch these by their class.
    special = own.get(failure[0]) or _find_library_exception(module, name)
    if special is not None:
        # No code of its class is run: `__init__` of a class of the prompt could have side effects here.
        builtin = next(c for c in special.__mro__ if c.__module__ == "builtins")
        error: Exception = builtin.__new__(special, *arguments)
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


def _build_builtin(base: Any, arguments: list[Any], failure: list[Any]) -> Exception:
    """Build an exception of a builtin class, or of the nearest base class that takes these arguments."""
    builtin = vars(builtins).get(base) if type(base) is str else None
    kinds: tuple[Any, ...] = ()
    if isinstance(builtin, type) and issubclass(builtin, Exception):
        kinds = () if issubclass(builtin, NEVER_REBUILT) else builtin.__mro__[:-2]
    for kind in (*kinds, CandidateError, Exception):
        if not _is_sound(kind, arguments):
            continue
        try:
            error: Exception = kind(*arguments)
            if failure[0] == kind.__name__ and str(error)[:MAX_TEXT] == failure[1]:
                return error
            return _build_with_text(kind, arguments, failure)
        except Exception:
            continue
    return CandidateError(failure[1])


def exception_text(error: Exception) -> str:
    """Return the text of an exception; of one of the program's, as the program sent it."""
    remote: list[Any] | None = vars(error).get("remote")
    return str(error) if remote is None else remote[1]


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
        if str(error)[:MAX_TEXT] == text:
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
    if not issubclass(kind, UnicodeDecodeError | UnicodeEncodeError | UnicodeTranslateError):
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
