"""The processes of a suite's jobs: as many at a time as a budget of cores allows, and none can harm another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from llm_decpomdp.algorithms.training.interruption import terminable, uninterrupted
from llm_decpomdp.benchmarks.runs.environment import SETTINGS
from llm_decpomdp.benchmarks.suites.job import FAILED, Job

POLL_SECONDS = 0.2

ASK_AGAIN_SECONDS = 10.0
"""Seconds after which a process that goes on is asked to end once more."""

LOG_CHARACTERS = 4000
"""Characters from the end of a log that replace a traceback, where a process could not write one."""


Changed = Callable[[Sequence[Job], Job | None], None]
"""Is told the running jobs, and one that has just ended."""


@dataclass
class Running:
    """A job and its process."""

    job: Job
    process: subprocess.Popen[bytes]
    cores: frozenset[int]
    """Numbers of the cores that it may use."""
    log: IO[bytes] = field(repr=False)


class Pool:
    """Runs jobs in processes of their own.

    A process has as many cores and threads as its cell says, and no other process has these cores. It ends when
    this one does, however that ends.

    Args:
        cores: The numbers of the cores that may be used; a job that wants more gets all of them.
        lock: A locked file, which every process keeps locked while it lives.
        changed: Called again and again.
    """

    def __init__(
        self,
        cores: Sequence[int],
        lock: IO[str],
        changed: Changed,
    ) -> None:
        self.cores = frozenset(cores)
        self._lock = lock
        self._changed = changed
        self._running: list[Running] = []

    def run(self, jobs: Sequence[Job]) -> None:
        """Run all jobs.

        Raises:
            KeyboardInterrupt: On Ctrl-C and SIGTERM, after all processes have saved what they have and ended.
        """
        pending = list(jobs)
        with terminable():
            try:
                while pending or self._running:
                    with uninterrupted():  # no process is started that nobody knows of
                        self._start(pending)
                    time.sleep(POLL_SECONDS)
                    self._collect()
            except KeyboardInterrupt:
                self._stop()
                raise
            finally:
                for running in self._running:
                    running.process.kill()

    def _start(self, pending: list[Job]) -> None:
        """Start jobs, in their order, while there are free cores."""
        for job in list(pending):
            free = sorted(self.cores.difference(*(running.cores for running in self._running)))
            size = min(job.cell.cores or len(self.cores), len(self.cores))
            if size <= len(free):
                pending.remove(job)
                self._running.append(self._started(job, frozenset(free[:size])))

    def _started(self, job: Job, cores: frozenset[int]) -> Running:
        job.write()
        log = (job.folder / "log.txt").open("ab")
        with _confined(cores):
            process = subprocess.Popen(
                command(job.folder),
                stdin=subprocess.PIPE,  # ends when this process does
                stdout=log,
                stderr=subprocess.STDOUT,
                env=variables(len(cores)),
                start_new_session=True,  # Ctrl-C comes from here alone, once
                pass_fds=[self._lock.fileno()],
            )
        return Running(job, process, cores, log)

    def _collect(self) -> None:
        """Report jobs that have ended, and the progress of the others."""
        for running in list(self._running):
            if running.process.poll() is None:
                continue
            self._running.remove(running)
            running.log.close()
            if not running.job.status():
                running.job.end(FAILED, error=_crash_report(running))
            self._changed([running.job for running in self._running], running.job)
        self._changed([running.job for running in self._running], None)

    def _stop(self) -> None:
        """Ask all processes to save and end, and wait for them; a second Ctrl-C does not wait.

        They are asked again, for Python drops an interrupt that falls into a finalizer or into the callback of a
        weak reference.
        """
        for running in self._running:
            running.process.terminate()  # who starts a command in the background lets it ignore SIGINT
        for running in self._running:
            while not _ended(running.process):
                running.process.terminate()
            running.log.close()
        self._running = []


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait a while for the end of a process."""
    try:
        process.wait(ASK_AGAIN_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextmanager
def _confined(cores: frozenset[int]) -> Iterator[None]:
    """Give processes that are started in a `with` block these cores alone, where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def command(folder: Path) -> list[str]:
    """Return the command line that does the job of a folder."""
    return [sys.executable, "-m", "llm_decpomdp.benchmarks.cli.cell", str(folder)]


def variables(cores: int) -> dict[str, str]:
    """Return the environment variables of a job's process."""
    return {
        **SETTINGS,
        **os.environ,
        "OMP_NUM_THREADS": str(cores),
        "PYTHONPATH": os.pathsep.join(sys.path),  # what is importable here is so there
        "PYTHONUNBUFFERED": "1",
    }


def _crash_report(running: Running) -> str:
    """Return log and exit code of a process that could not write a traceback."""
    code = running.process.returncode
    reason = f"exit code {code}"
    if code < 0:
        hint = (
            "; the system kills processes so when memory runs out"
            if -code == signal.SIGKILL
            else ""
        )
        reason = f"killed by {signal.Signals(-code).name}{hint}"
    log = (running.job.folder / "log.txt").read_text(encoding="utf-8", errors="replace")
    return f"{log[-LOG_CHARACTERS:]}\nThe process ended without a traceback: {reason}"
