"""The process that runs one program and its tests. Standard library only; started as a script.

Reads one JSON request from standard input and writes events, one JSON object a line, to the file descriptor
named on the command line: `ready`, then `loaded` (with an error or null), `stage` before each stage of the
test, `test` for each assert, `ended` when a stage stopped with an exception, `done`.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False  # importing typing would double the time that this process takes to start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_TEXT = 300


def main(descriptor: int) -> None:
    sys.path.pop(0)  # the folder of this script
    request = json.loads(sys.stdin.buffer.read())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    limit_resources(request["memory_bytes"], request["file_bytes"])

    def send(**event: Any) -> None:
        os.write(descriptor, (json.dumps(event) + "\n").encode())

    send(event="ready")
    module = type(sys)("__program__")
    sys.modules[module.__name__] = module  # dataclasses and pickle look their class's module up
    program: dict[str, Any] = module.__dict__
    try:
        if any("random" in code for _, code in request["segments"]) or "random" in request["tests"]:
            import random

            random.seed(0)
        for origin, code in request["segments"]:
            exec(compile(code, f"<{origin}>", "exec", dont_inherit=True), program)
        candidate = program[request["entry_point"]]
    except BaseException as error:
        send(event="loaded", error=describe(error))
        return
    send(event="loaded", error=None)
    stage = Stage(send, set(request["skip"]))
    # The test sees the program's names, such as helpers of the prompt, and leaves them as they are.
    scope = dict(program, __name__="__test__", __record__=Record(send), __stage__=stage)
    try:
        exec(compile(request["tests"], "<tests>", "exec", dont_inherit=True), scope)
        scope["__check__"](candidate, scope["__record__"], stage)
    except BaseException as error:
        send(event="ended", stage=stage.number, error=describe(error))
    send(event="done")


class Record:
    """Reports an assert: the first time it holds, and the first time it does not."""

    def __init__(self, send: Callable[..., None]) -> None:
        self.send = send
        self.sent: set[tuple[int, bool]] = set()

    def __call__(self, test: int, outcome: bool | BaseException, message: object = None) -> None:
        passed = outcome is True
        if (test, passed) in self.sent or (test, False) in self.sent:
            return
        self.sent.add((test, passed))
        error = None
        if not passed:
            if isinstance(outcome, BaseException):
                error = describe(outcome)
            else:
                text = "the assertion does not hold" if message is None else str(message)
                error = describe(AssertionError(text))
        self.send(event="test", test=test, error=error)


class Stage:
    """Runs the stages of a test; an exception ends its own stage only."""

    def __init__(self, send: Callable[..., None], skipped: set[int]) -> None:
        self.send = send
        self.skipped = skipped
        self.number = -1

    def runs(self, number: int) -> bool:
        if number in self.skipped:
            return False
        self.number = number
        self.send(event="stage", stage=number)
        return True

    def __enter__(self) -> None:
        """Nothing to prepare: `runs` has announced the stage."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if error is not None:
            self.send(event="ended", stage=self.number, error=describe(error))
        return True


def describe(error: BaseException) -> dict[str, Any]:
    """An exception as JSON: its type, its text, and the last place in an agent's code that it came through."""
    try:
        text = str(error)[:MAX_TEXT]
    except BaseException:
        text = ""
    origin, line = "", 0
    traceback = error.__traceback__
    while traceback is not None:
        filename = traceback.tb_frame.f_code.co_filename
        if filename.startswith("<") and filename != "<tests>" and "frozen" not in filename:
            origin, line = filename[1:-1], traceback.tb_lineno
        traceback = traceback.tb_next
    return {"type": type(error).__name__[:60], "text": text, "origin": origin, "line": line}


def limit_resources(memory_bytes: int, file_bytes: int) -> None:
    try:
        import resource
    except ImportError:  # not a POSIX system
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    if sys.platform.startswith("linux"):  # macOS accepts the call and ignores it
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


if __name__ == "__main__":
    main(int(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)
