"""The sandbox as its callers see it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from llm_decpomdp.envs.sandbox.instrument import Tests
from llm_decpomdp.envs.sandbox.process import (
    START_SECONDS,
    Findings,
    Limits,
    Process,
    Program,
    SandboxError,
)
from llm_decpomdp.episode import Outcome


@dataclass(frozen=True)
class Execution:
    """What running a program against its tests showed."""

    tests: tuple[Outcome, ...]
    error: Outcome | None
    """Why the program could not be loaded; None if it was."""
    output: str
    """The beginning of what the program printed."""
    seconds: float


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
        found = Findings()
        for _ in range(limits.max_timeouts):
            if _attempt(program, tests, limits, found):
                break
        return Execution(
            tests=tuple(_outcome(tests, index, found) for index in range(len(tests.cases))),
            error=found.error,
            output=found.output.decode("utf-8", "replace"),
            seconds=time.monotonic() - begin,
        )


def _attempt(program: Program, tests: Tests, limits: Limits, found: Findings) -> bool:
    """Run the program once; True if nothing is left to do, False if it hung or died in a test."""
    process = Process(program, tests, limits, found)
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


def _verdict_of(ended: str, process: Process, limits: Limits) -> tuple[str, str]:
    if ended == "timeout":
        seconds = limits.load_seconds if process.ready else START_SECONDS
        seconds = seconds if process.stage is None else limits.test_seconds
        return "timeout", f"TimeoutError: no result within {seconds:g} seconds"
    if ended == "forged":
        return "crashed", "the program wrote into the reports of its tests"
    code = process.process.returncode
    if code < 0:
        return "crashed", f"the program was killed by signal {-code} ({signal.strsignal(-code)})"
    return "crashed", f"the program ended its own process (exit code {code})"


def _outcome(tests: Tests, index: int, found: Findings) -> Outcome:
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
