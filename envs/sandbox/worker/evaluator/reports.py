"""Reports of an instrumented test while it runs, and the outcomes that follow from them.

The same `Record` and `Stage` serve both ways of grading: beside the program's process, where they report
straight to `Findings`, and inside it, where their reports are sent to `Findings` as messages that may be forged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

MAX_TEXT = 300
"""Longest text of an exception that is kept, in characters."""

MAX_NAME = 200
"""Longest name of a type or of an agent."""

# Integers in JSON may have any length.
MAX_COUNT = 2**40

# What seccomp, Landlock and the limit on processes make of a refused call.
FORBIDDEN = ("PermissionError", "BlockingIOError")


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
        error = None
        if outcome is not True:
            self.failed.add(test)
            if not isinstance(outcome, BaseException):
                text = "the assertion does not hold" if message is None else str(message)
                outcome = AssertionError(text)
            error = self.describe(outcome)
        self.send("test", test, error)


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
    """The reports on one program so far.

    Args:
        job: `stages` (the stage of each test), `num_stages`, `uses` and `changes` (variables of each stage),
            `guards` (tests that pass by not being reached), `minimum` (number of times that each test must be
            reached at least), and `judges_result` (true for tests that look at results of calls).
        expected: True for each test that is expected to pass.
    """

    def __init__(self, job: dict[str, Any], expected: Sequence[bool] = ()) -> None:
        self.expected = expected
        self.stages: list[int] = job["stages"]
        self.num_stages: int = job["num_stages"]
        self.uses: list[list[str]] = job["uses"]
        self.changes: list[list[str]] = job["changes"]
        self.guards: set[int] = set(job["guards"])
        self.minimum: list[int] = job["minimum"]
        self.judges_result: list[bool] = job["judges_result"]
        self.tests: dict[int, Any] = {}
        self.stage_errors: dict[int, Any] = {}
        self.finished: set[int] = set()
        self.reached: dict[int, int] = {}
        self.stage: int | None = None
        self.error: Any = None
        self.veto: list[Any] = []
        self.calls: dict[int, list[int]] = {}
        """Calls of each helper, by stage."""

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

    def disappoint(self) -> bool:
        """Check whether a test has failed that is expected to pass."""
        return any(
            should_pass
            and (self.tests.get(test) is not None or self.stages[test] in self.stage_errors)
            for test, should_pass in enumerate(self.expected)
        )

    def add_veto(self, hidden: Findings) -> Findings:
        """Add a veto by a run in which changes of arguments were hidden from the tests.

        A test that judges results of calls must pass both times. One that only looks at their arguments is there
        to see the change.
        """
        pairs = zip(self.outcomes(), hidden.outcomes(), self.judges_result, strict=True)
        self.veto = [second if judges else first for first, second, judges in pairs]
        return self

    def outcomes(self) -> list[list[Any]]:
        """Return the outcome of each test: [passed, status, message, origin, line]."""
        failures = self._failures()
        outcomes = [self._outcome(test, failures) for test in range(len(self.stages))]
        pairs = zip(outcomes, self.veto or outcomes, strict=True)
        return [veto if outcome[0] else outcome for outcome, veto in pairs]

    def _failures(self) -> dict[int, Any]:
        """Return the failure of each failed stage: its own, or that of a stage that sets a variable of it."""
        failures = dict(self.stage_errors)
        spoiled: dict[str, Any] = {}
        for stage in range(self.num_stages) if failures else ():
            for name in self.uses[stage]:
                if name in spoiled:
                    failures.setdefault(stage, spoiled[name])
            if stage in failures:
                for name in self.changes[stage]:
                    spoiled.setdefault(name, failures[stage])
        return failures

    def _outcome(self, test: int, failures: dict[int, Any]) -> list[Any]:
        stage = self.stages[test]
        failure = self.error or failures.get(stage)
        was_reached = test in self.tests
        if was_reached and self.tests[test] is not None:
            return verdict(self.tests[test])
        if failure is not None:
            return verdict(failure)
        if test in self.guards and not was_reached and stage in self.finished:
            return [True, "passed", "", "", 0]
        if not was_reached:
            return [False, "not_run", "the test was not reached", "", 0]
        times = self.reached.get(test, 0)
        if times < self.minimum[test]:
            text = f"the test was reached {times} times; the reference reaches it {self.minimum[test]} times"
            return [False, "not_run", text, "", 0]
        return [True, "passed", "", "", 0]


def verdict(failure: list[Any]) -> list[Any]:
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
    except BaseException:
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
    if not all(type(part) is str for part in (kind, text, origin, status)) or not is_count(line):
        return False
    return max(len(kind), len(origin)) <= MAX_NAME and len(text) <= MAX_TEXT


def is_count(claim: Any) -> bool:
    """Check whether a value that a program sent is a count."""
    return type(claim) is int and 0 <= claim < MAX_COUNT
