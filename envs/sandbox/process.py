"""One run of one program in a process of its own, from the side that is trusted."""

from __future__ import annotations

import json
import operator
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llm_decpomdp.envs.sandbox.instrument import Tests
from llm_decpomdp.episode import Outcome

WORKER = Path(__file__).with_name("worker.py")

START_SECONDS = 60.0
"""How long our own worker may take to start, however busy the machine is."""

MAX_EVENT_BYTES = 64 * 2**10
"""Longest report of the worker; what is longer comes from the program."""


class SandboxError(RuntimeError):
    """The sandbox itself failed: never the program's fault, never a low reward."""


@dataclass(frozen=True)
class Program:
    """A program in parts that share one namespace, run in order."""

    segments: tuple[tuple[str, str], ...]
    """(origin, code): whose code it is, such as an agent's id. Line numbers count within each part."""
    entry_point: str
    """The function under test."""


@dataclass(frozen=True)
class Limits:
    """What one program may use."""

    load_seconds: float = 10.0
    """Wall time to define everything, in seconds."""
    test_seconds: float = 10.0
    """Wall time of one top-level statement of the test, in seconds."""
    max_timeouts: int = 3
    """After so many time-outs or crashes the remaining tests are not run."""
    memory_bytes: int = 512 * 2**20
    file_bytes: int = 16 * 2**20
    output_bytes: int = 64 * 2**10
    """How much of what the program prints is kept."""


@dataclass
class Findings:
    """What has been seen so far, over all attempts at one program."""

    tests: dict[int, Outcome] = field(default_factory=dict)
    stage_errors: dict[int, Outcome] = field(default_factory=dict)
    finished_stages: set[int] = field(default_factory=set)
    skip: set[int] = field(default_factory=set)
    error: Outcome | None = None
    output: bytes = b""


class Process:
    """One run of the worker."""

    def __init__(self, program: Program, tests: Tests, limits: Limits, found: Findings) -> None:
        self.limits = limits
        self.found = found
        self.num_stages = tests.num_stages
        self.ready = False
        self.stage: int | None = None
        self.folder = tempfile.mkdtemp(prefix="llm-decpomdp-")
        self.results, write_end = os.pipe()
        request = {
            "segments": program.segments,
            "entry_point": program.entry_point,
            "tests": tests.source,
            "skip": sorted(found.skip),
            "memory_bytes": limits.memory_bytes,
            "file_bytes": limits.file_bytes,
        }
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-S", "-s", "-B", str(WORKER), str(write_end)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={"PYTHONHASHSEED": "0", "PYTHONUTF8": "1"},
                pass_fds=(write_end,),
                start_new_session=True,
            )
        except OSError as error:
            os.close(self.results)
            shutil.rmtree(self.folder, ignore_errors=True)
            raise SandboxError(f"cannot start a process for the program: {error}") from error
        finally:
            os.close(write_end)
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode())
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # the worker died at once: `watch` sees it and says why

    def watch(self) -> str:
        """Read events until the end: `done`, `timeout`, `died` or `forged`."""
        assert self.process.stdout is not None
        output = self.process.stdout.fileno()
        poll = select.poll()
        poll.register(self.results, select.POLLIN)
        poll.register(output, select.POLLIN)
        deadline = time.monotonic() + START_SECONDS
        pending = b""
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return "timeout"
            for descriptor, _ in poll.poll(remaining * 1000):
                if descriptor == output:
                    if not self._take_output():
                        poll.unregister(output)
                    continue
                data = os.read(descriptor, 65536)
                if not data:
                    return self._ended(remaining)
                *lines, pending = (pending + data).split(b"\n")
                try:
                    for line in lines:
                        event = json.loads(line)
                        if event["event"] == "done":
                            self._finish_stage()
                            self.found.finished_stages.add(-1)  # what belongs to no stage
                            return "done"
                        deadline = self._note(event, deadline)
                except (ValueError, LookupError, TypeError, RecursionError):
                    return "forged"
                if len(pending) > MAX_EVENT_BYTES:
                    return "forged"

    def _ended(self, seconds: float) -> str:
        """What became of a process that reports no more: it may only have closed the channel."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return "timeout"
        assert self.process.stdout is not None
        last_words = select.poll()
        last_words.register(self.process.stdout, select.POLLIN)
        if last_words.poll(0):
            self._take_output()
        return "died"

    def _take_output(self) -> bool:
        """Read some of what was printed, keep as much as the limit allows; False at its end."""
        assert self.process.stdout is not None
        data = os.read(self.process.stdout.fileno(), 65536)
        room = self.limits.output_bytes - len(self.found.output)
        self.found.output += data[: max(room, 0)]
        return bool(data)

    def _note(self, event: dict[str, Any], deadline: float) -> float:
        """Take an event in; the deadline of what follows. Raises if the worker cannot have sent it."""
        kind = event["event"]
        if kind == "ready" and not self.ready:
            self.ready = True
            return time.monotonic() + self.limits.load_seconds
        if kind == "loaded" and event["error"] is not None:
            self.found.error = _failure(event["error"])
        elif kind == "stage":
            self._finish_stage()
            passed, self.stage = self.stage, operator.index(event["stage"])
            if not (-1 if passed is None else passed) < self.stage < self.num_stages:
                raise ValueError(f"stage {self.stage} cannot follow stage {passed}")
            return time.monotonic() + self.limits.test_seconds
        elif kind == "ended":
            self.found.stage_errors[operator.index(event["stage"])] = _failure(event["error"])
        elif kind == "test":
            test, error = operator.index(event["test"]), event["error"]
            known = self.found.tests.get(test)
            if known is None or known.passed:
                self.found.tests[test] = Outcome("", True) if error is None else _failure(error)
        return deadline

    def _finish_stage(self) -> None:
        if self.stage is not None:
            self.found.finished_stages.add(self.stage)

    def kill(self) -> None:
        """End the program with all of its processes, and remove its folder."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended by itself
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        os.close(self.results)
        shutil.rmtree(self.folder, ignore_errors=True)


def _failure(error: dict[str, Any]) -> Outcome:
    kind, text, origin = (
        str(error[key]).encode("utf-8", "replace").decode() for key in ("type", "text", "origin")
    )
    status = "failed" if kind == "AssertionError" and not origin else "error"
    if kind == "MemoryError":
        status = "memory"
    # One line: a text of several could pass for lines of the feedback that shows it.
    message = " ".join(f"{kind}: {text}".split()) if text else kind
    return Outcome("", False, status, message, origin, operator.index(error["line"]))
