"""Dispatch the jobs of one call to workers, and recover when a worker dies.

A worker that dies costs its own job another attempt, and the others nothing.
"""

from __future__ import annotations

import selectors
import signal
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llm_decpomdp.envs.sandbox.program import SandboxError
from llm_decpomdp.envs.sandbox.worker.protocol.channel import Closed
from llm_decpomdp.envs.sandbox.worker_process import Worker

if TYPE_CHECKING:
    from llm_decpomdp.envs.sandbox.pool import Pool

MAX_ATTEMPTS = 3
"""Deaths of a worker at the same job that count as a failure of the sandbox."""

ENDLESS = "TimeoutError: the test did not end on the program's values within {seconds:g} seconds"

FATAL: dict[int, str] = {
    number: f"the program's values crashed the interpreter of the test ({number.name})"
    for number in (
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGABRT,
        signal.SIGILL,
        signal.SIGFPE,
    )
}
"""Messages by signal, for crashes of the interpreter that the same program causes in each attempt."""

Job = dict[str, Any]
Result = dict[str, Any]


class Batch:
    """Dispatcher of the jobs of one call."""

    def __init__(self, pool: Pool, jobs: Sequence[Job]) -> None:
        self.pool = pool
        self.jobs = list(jobs)
        self.queue = deque(range(len(jobs)))
        self.attempts = [0] * len(jobs)
        self.missing = len(jobs)
        self.results: list[Result] = [{}] * len(jobs)
        self.workers: list[Worker] = []

    def run(self, workers: list[Worker]) -> None:
        """Grade all jobs; `workers` shrinks and grows as other callers need and leave some."""
        self.workers = workers
        with selectors.DefaultSelector() as selector:
            for worker in workers:
                selector.register(worker.descriptor, selectors.EVENT_READ, worker)
            while self.missing:
                self._rebalance(selector)
                self._wait(selector)

    def _rebalance(self, selector: selectors.BaseSelector) -> None:
        """Give each idle worker a job, or return it if other callers wait or no job is left; take free ones."""
        workers = self.workers
        for worker in [worker for worker in workers if worker.job is None]:
            if len(workers) > 1 and (self.pool.queue or not self.queue):
                selector.unregister(worker.descriptor)
                workers.remove(worker)
                self.pool.give_back([worker])
            elif self.queue:
                self._dispatch(worker)
        if self.queue:
            size = len(workers)
            self.pool.take(workers, len(self.queue), wait=False)
            for worker in workers[size:]:
                self._dispatch(worker)
                selector.register(worker.descriptor, selectors.EVENT_READ, worker)

    def _dispatch(self, worker: Worker) -> None:
        index = self.queue.popleft()
        worker.send(index, self.jobs[index])

    def _wait(self, selector: selectors.BaseSelector) -> None:
        """Wait for results, and replace workers that have ended or are late."""
        workers = self.workers
        for worker in workers:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.unsent else 0)
            if selector.get_key(worker.descriptor).events != events:
                selector.modify(worker.descriptor, events, worker)
        timeout = min(worker.deadline for worker in workers) - time.monotonic()
        for key, _ in selector.select(max(timeout, 0.0)):
            worker = key.data
            try:
                worker.flush()
                index, result = worker.job, worker.result()
            except Closed:
                self._replace(worker, selector)
                continue
            if index is not None and result is not None:
                self.results[index] = result
                self.missing -= 1
        for worker in workers:
            if time.monotonic() > worker.deadline:
                worker.kill()
                self._replace(worker, selector)

    def _replace(self, worker: Worker, selector: selectors.BaseSelector) -> None:
        """Restart a dead worker; its job is tried once more, or judged by the exit status."""
        selector.unregister(worker.descriptor)
        index = worker.job
        status, stderr = worker.reap()
        if index is not None:
            self._repeat_or_judge(index, status, stderr, worker.tests_result, worker.seconds_left)
        worker.start()
        worker.handshake()
        selector.register(worker.descriptor, selectors.EVENT_READ, worker)

    def _repeat_or_judge(
        self,
        index: int,
        status: int,
        stderr: str,
        tests_result: Result | None,
        seconds_left: float,
    ) -> None:
        """Queue the job at which a worker died once more, or judge it by the exit status.

        Values of a changed run may have ended it. They decide about the helpers only: the outcomes of the tests
        are known, or found out once more without changed runs.
        """
        job = self.jobs[index]
        endless, fatal = status in (-signal.SIGPROF, -signal.SIGALRM), -status in FATAL
        if (endless or fatal) and tests_result is not None:
            self.results[index] = tests_result
            self.missing -= 1
            return
        if (endless or fatal) and job["change"] and seconds_left > 0:
            limits = {**job["limits"], "job_seconds": seconds_left}
            again = {"change": False, "limits": limits, "tests_seconds": seconds_left}
            self.jobs[index] = {**job, **again}
            self.queue.appendleft(index)
            return
        self.attempts[index] += 1
        if endless:
            self._judge(index, "timeout", ENDLESS, status == -signal.SIGALRM)
        elif fatal and self.attempts[index] >= MAX_ATTEMPTS:
            self._judge(index, "crashed", FATAL[-status])
        elif self.attempts[index] >= MAX_ATTEMPTS:
            raise SandboxError(
                f"the sandbox's worker died {MAX_ATTEMPTS} times at one program "
                f"(exit status {status}): {stderr or 'without a word'}"
            )
        else:
            self.queue.appendleft(index)

    def _judge(self, index: int, status: str, text: str, by_clock: bool = False) -> None:
        """Record the verdict on a program whose values ended the evaluator."""
        job = self.jobs[index]
        seconds = job["limits"]["test_seconds"]
        message = text.format(seconds=seconds)
        self.missing -= 1
        self.results[index] = {
            "tests": [[False, status, message, "", 0]] * len(job["stages"]),
            "error": None,
            "output": "",
            "helper_calls": [0] * len(job["helpers"]),
            "helpers_used": [False] * len(job["helpers"]),
            "helpers_suffice": [False] * len(job["helpers"]),
            "reached": [0] * len(job["stages"]),
            "wall_decided": by_clock,
            "seconds": seconds,
        }
