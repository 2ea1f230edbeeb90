"""The sandbox as its callers see it, and the side of it that they trust."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from llm_decpomdp.envs.sandbox.instrument import Tests
from llm_decpomdp.episode import Outcome

WORKER = Path(__file__).with_name("worker.py")


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


@dataclass(frozen=True)
class Execution:
    """What running a program against its tests showed."""

    tests: tuple[Outcome, ...]
    error: Outcome | None
    """Why the program could not be loaded; None if it was."""
    output: str
    """The beginning of what the program printed."""
    seconds: float


@dataclass
class _Findings:
    """What has been seen so far, over all attempts at one program."""

    tests: dict[int, Outcome] = field(default_factory=dict)
    stage_errors: dict[int, Outcome] = field(default_factory=dict)
    finished_stages: set[int] = field(default_factory=set)
    skip: set[int] = field(default_factory=set)
    error: Outcome | None = None
    output: bytes = b""


class Sandbox:
    """Runs programs, each in a process of its own. Thread-safe; holds nothing open between calls.

    Args:
        limits: What each program may use.
        workers: Programs that `run_batch` runs at the same time; default one for each core.
    """

    def __init__(self, limits: Limits | None = None, workers: int | None = None) -> None:
        self.limits = limits or Limits()
        self.workers = workers or os.cpu_count() or 1

    def run_batch(self, jobs: Sequence[tuple[Program, Tests]]) -> list[Execution]:
        """Run several programs at once; results in the order of `jobs`."""
        with ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(lambda job: self.run(*job), jobs))

    def run(self, program: Program, tests: Tests, limits: Limits | None = None) -> Execution:
        """Run a program against its tests.

        A test that hangs or kills its process costs that stage of the test only: the program is started
        again without it, until `max_timeouts` is used up.

        Raises:
            SandboxError: If no process can be started.
        """
        limits = limits or self.limits
        begin = time.monotonic()
        found = _Findings()
        for _ in range(limits.max_timeouts):
            if _attempt(program, tests, limits, found):
                break
        else:
            found.skip |= set(range(tests.num_stages))
        return Execution(
            tests=tuple(_outcome(tests, index, found) for index in range(len(tests.cases))),
            error=found.error,
            output=found.output.decode("utf-8", "replace"),
            seconds=time.monotonic() - begin,
        )


def _attempt(program: Program, tests: Tests, limits: Limits, found: _Findings) -> bool:
    """Run the program once; True if nothing is left to do, False if it hung or died in a test."""
    process = _Process(program, tests, limits, found)
    try:
        ended = process.watch()
    finally:
        process.kill()
    if ended == "done" or found.error is not None:
        return True
    status, message = _verdict_of(ended, process, limits)
    if process.stage is None:
        if not process.ready:
            detail = found.output.decode("utf-8", "replace")[-500:]
            raise SandboxError(f"the sandbox's worker did not start ({message}): {detail}")
        found.error = Outcome("", False, status, message)
        return True
    found.skip.add(process.stage)
    found.stage_errors[process.stage] = Outcome("", False, status, message)
    return False


def _verdict_of(ended: str, process: _Process, limits: Limits) -> tuple[str, str]:
    if ended == "timeout":
        seconds = limits.load_seconds if process.stage is None else limits.test_seconds
        return "timeout", f"TimeoutError: no result within {seconds:g} seconds"
    code = process.process.returncode
    if code is not None and code < 0:
        return "crashed", f"the program was killed by {signal.Signals(-code).name}"
    return "crashed", f"the program ended its own process (exit code {code})"


def _outcome(tests: Tests, index: int, found: _Findings) -> Outcome:
    """What became of one test, from its own reports and those of its stage."""
    case, stage = tests.cases[index], tests.stages[index]
    reported = found.tests.get(index)
    failure = found.error or found.stage_errors.get(stage)
    if index in tests.guards and reported is None and stage in found.finished_stages:
        if failure is None:
            return Outcome(case, True)
    # A pass counts only if the loop or block around the assert ran to its end.
    if reported is not None and not (reported.passed and failure):
        return replace(reported, case=case)
    if failure is not None:
        return replace(failure, case=case)
    return Outcome(case, False, "not_run", "the test was not reached")


class _Process:
    """One run of the worker."""

    def __init__(self, program: Program, tests: Tests, limits: Limits, found: _Findings) -> None:
        self.limits = limits
        self.found = found
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
        """Read events until the end: `done`, `timeout` or `died`."""
        assert self.process.stdout is not None
        output = self.process.stdout.fileno()
        poll = select.poll()
        poll.register(self.results, select.POLLIN)
        poll.register(output, select.POLLIN)
        deadline = time.monotonic() + self.limits.load_seconds
        pending = b""
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return "timeout"
            for descriptor, _ in poll.poll(remaining * 1000):
                data = os.read(descriptor, 65536)
                if descriptor == output:
                    room = self.limits.output_bytes - len(self.found.output)
                    self.found.output += data[: max(room, 0)]
                    if not data:
                        poll.unregister(output)
                    continue
                if not data:
                    self.process.wait()
                    return "died"
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["event"] == "done":
                        self._finish_stage()
                        return "done"
                    deadline = self._note(event, deadline)

    def _note(self, event: dict[str, Any], deadline: float) -> float:
        """Take an event in; the deadline of what follows."""
        kind = event["event"]
        if kind == "ready":
            self.ready = True
            return time.monotonic() + self.limits.load_seconds
        if kind == "loaded" and event["error"] is not None:
            self.found.error = _failure(event["error"])
        elif kind == "stage":
            self._finish_stage()
            self.stage = event["stage"]
            return time.monotonic() + self.limits.test_seconds
        elif kind == "ended":
            self.found.stage_errors[event["stage"]] = _failure(event["error"])
        elif kind == "test":
            known = self.found.tests.get(event["test"])
            if known is None or known.passed:
                error = event["error"]
                outcome = Outcome("", True) if error is None else _failure(error)
                self.found.tests[event["test"]] = outcome
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
    kind, text = error["type"], error["text"]
    status = "failed" if kind == "AssertionError" and not error["origin"] else "error"
    if kind == "MemoryError":
        status = "memory"
    message = f"{kind}: {text}" if text else kind
    return Outcome("", False, status, message, error["origin"], error["line"])
