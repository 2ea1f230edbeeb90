"""The processes of a suite's jobs, on this machine within a number of cores, or on a Ray cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from llm_decpomdp.algorithms.rollout_workers.options import RolloutWorkerError
from llm_decpomdp.algorithms.rollout_workers.ray_workers import connect
from llm_decpomdp.algorithms.training.callbacks import defer_signals, terminable
from llm_decpomdp.benchmarks.runs import SETTINGS
from llm_decpomdp.benchmarks.suites.job import FAILED, Job

# Short compared with a job, long enough to cost no processor time.
POLL_SECONDS = 0.2

# Seconds until SIGTERM is sent again. A training saves within seconds, but Python drops a signal that
# falls into a finalizer or into the callback of a weak reference.
ASK_AGAIN_SECONDS = 10.0

# Characters from the end of a log that replace a missing traceback: about fifty lines.
LOG_CHARACTERS = 4000

# A lost node is common on a cluster; a job that dies three times has a fault of its own.
MAX_RETRIES = 2

Changed = Callable[[Sequence[Job], Job | None], None]


@dataclass
class Running:
    """A job and its process."""

    job: Job
    process: subprocess.Popen[bytes]
    cores: frozenset[int]
    log: IO[bytes] = field(repr=False)


class JobPool:
    """Runs jobs in separate processes, each with the cores and threads of its arm.

    A process ends when this one does, for whatever reason.

    Args:
        cores: The numbers of the usable cores; a job that wants more gets all of them.
        lock: A locked file, which every process keeps locked while it lives.
        update: Called again and again.
    """

    def __init__(self, cores: Sequence[int], lock: IO[str], update: Changed) -> None:
        self.cores = frozenset(cores)
        self._lock = lock
        self._changed = update
        self._running: list[Running] = []

    def run(self, jobs: Sequence[Job]) -> None:
        """Run all jobs; after Ctrl-C and SIGTERM all processes save their results and end first."""
        # Jobs start in this order, but a small job may overtake a large one that waits for cores.
        pending = list(jobs)
        with terminable():
            try:
                while pending or self._running:
                    with defer_signals():  # a process that has started is always registered
                        self._start(pending)
                    time.sleep(POLL_SECONDS)
                    self._collect()
            except KeyboardInterrupt:
                self._stop()
                raise
            finally:
                # After an error other than Ctrl-C nobody else would end them.
                for running in self._running:
                    running.process.kill()

    def _start(self, pending: list[Job]) -> None:
        unfinished = {job.folder for job in pending}.union(r.job.folder for r in self._running)
        for job in list(pending):
            # A job that trains the team of another job waits for it.
            if job.initial_job in unfinished:
                continue
            free = sorted(self.cores.difference(*(running.cores for running in self._running)))
            # An arm may ask for more cores than this machine has.
            size = min(job.arm.cores or len(self.cores), len(self.cores))
            if size <= len(free):
                pending.remove(job)
                self._running.append(self._start_job(job, frozenset(free[:size])))

    def _start_job(self, job: Job, cores: frozenset[int]) -> Running:
        # The job file exists before its process, which reads it first.
        job.write()
        # Later sessions of the suite append to the log.
        log = (job.folder / "log.txt").open("ab")
        # Each job holds the lock of the folder, too, so that it lasts until the last one has ended.
        with _pin_cores(cores):
            process = _start_process(job.folder, len(cores), log, pass_fds=[self._lock.fileno()])
        return Running(job, process, cores, log)

    def _collect(self) -> None:
        for running in list(self._running):
            if running.process.poll() is None:
                continue
            self._running.remove(running)
            running.log.close()
            # A process that was killed could not write how it ended.
            if not running.job.status():
                running.job.end(FAILED, error=_crash_report(running))
            self._changed([running.job for running in self._running], running.job)
        self._changed([running.job for running in self._running], None)

    def _stop(self) -> None:
        """Ask all processes to save and end, and wait for them; a second Ctrl-C does not wait."""
        # Not SIGINT, which a process ignores if a shell has started it in the background.
        for running in self._running:
            running.process.terminate()
        for running in self._running:
            _end(running.process)
            running.log.close()
        self._running = []


def _end(process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(ASK_AGAIN_SECONDS)


@contextmanager
def _pin_cores(cores: frozenset[int]) -> Iterator[None]:
    """Give only these cores to processes that are started in a `with` block, if the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    # The affinity is inherited by a child, so it is set for the moment of the start.
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _start_process(
    folder: Path, cores: int, log: IO[bytes], pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    variables = {
        **SETTINGS,
        **os.environ,
        "OMP_NUM_THREADS": str(cores),
        "PYTHONPATH": os.pathsep.join(sys.path),  # plug-ins that are importable here
        # A killed process does not flush its output.
        "PYTHONUNBUFFERED": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "llm_decpomdp.benchmarks.cli.suite_job", str(folder)],
        stdin=subprocess.PIPE,  # ends when this process does
        stdout=log,
        stderr=subprocess.STDOUT,
        env=variables,
        start_new_session=True,  # Ctrl-C comes from here alone, once
        pass_fds=pass_fds,
    )


def _crash_report(running: Running) -> str:
    """Return log and exit code of a process that could not write a traceback."""
    code = running.process.returncode
    reason = f"exit code {code}"
    if code < 0:
        reason = f"killed by {signal.Signals(-code).name}"
    if -code == signal.SIGKILL:
        reason += "; the system kills processes so when memory runs out"
    log = (running.job.folder / "log.txt").read_text(encoding="utf-8", errors="replace")
    return f"{log[-LOG_CHARACTERS:]}\nThe process ended without a traceback: {reason}"


class RayPool:
    """Runs jobs as tasks of Ray, each in a separate process on a node with enough resources.

    Args:
        address: Address of the cluster, as in `connect`.
        trusted_network: See `connect`.
        update: Called again and again.

    Raises:
        RolloutWorkerError: If there is no such cluster, or it requires no token.
    """

    def __init__(self, address: str | None, trusted_network: bool, update: Changed) -> None:
        self._ray = connect(address, trusted_network=trusted_network)
        self._changed = update

    def run(self, jobs: Sequence[Job]) -> None:
        """Run all jobs; after Ctrl-C and SIGTERM they save their results and end first."""
        calls: dict[Any, Job] = {}
        with terminable():
            try:
                largest = self._largest_node(jobs)
                for job in jobs:
                    job.write()
                    cores = job.arm.cores or largest
                    resources = {"num_cpus": cores, "num_gpus": job.arm.gpus}
                    task = self._ray.remote(run_job).options(max_retries=MAX_RETRIES, **resources)
                    # Ray starts a task after those whose results are its arguments; they stand before it.
                    first = [call for call, peer in calls.items() if peer.folder == job.initial_job]
                    calls[task.remote(job.folder.absolute(), cores, *first)] = job
                while calls:
                    self._collect(calls)
            except KeyboardInterrupt:
                while calls:
                    for call in calls:
                        self._ray.cancel(call)
                    finished, _ = self._ray.wait(
                        list(calls), num_returns=len(calls), timeout=ASK_AGAIN_SECONDS
                    )
                    for call in finished:
                        del calls[call]
                raise
            finally:
                self._ray.shutdown()

    def _largest_node(self, jobs: Sequence[Job]) -> int:
        # Ray waits forever for resources that no node has.
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        largest = int(max(node.get("CPU", 0) for node in nodes))
        for job in jobs:
            cores, gpus = job.arm.cores or largest, job.arm.gpus
            if not any(n.get("CPU", 0) >= cores and n.get("GPU", 0) >= gpus for n in nodes):
                raise RolloutWorkerError(
                    f"arm {job.arm.name} needs {cores} cores and {gpus:g} GPUs, and no node of the cluster has "
                    "both: set its cores and gpus"
                )
        return largest

    def _collect(self, calls: dict[Any, Job]) -> None:
        ready, _ = self._ray.wait(list(calls), timeout=POLL_SECONDS)
        # None at the end shows progress also where no job has ended.
        for call in [*ready, None]:
            job = calls.pop(call) if call is not None else None
            if job is not None:
                try:
                    reason = f"exit code {self._ray.get(call)}"
                except self._ray.exceptions.RayError as error:
                    reason = str(error)
                if not job.status():
                    log = f"the whole log is in {job.folder / 'log.txt'}"
                    job.end(FAILED, error=f"The process ended without a traceback: {reason}; {log}")
            self._changed([j for j in calls.values() if (j.folder / "log.txt").exists()], job)


def run_job(folder: Path, cores: int, _initial_team: int = 0) -> int:
    """Run the job of a folder in a process that ends with this one, and return its exit code.

    The last argument is the exit code of the job of the initial team. Ray waits for it.
    """
    with (folder / "log.txt").open("ab") as log:
        process = _start_process(folder, cores, log)
        try:
            # Short waits, so that Ray can cancel the task.
            while process.poll() is None:
                time.sleep(POLL_SECONDS)
        finally:
            _end(process)
    return process.returncode
