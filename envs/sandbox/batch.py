"""The jobs of one call on their way through some workers, and what happens when a worker dies.

A worker that dies costs the job it was at another attempt, and the jobs queued behind it nothing.
"""

from __future__ import annotations

import selectors
import signal
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llm_decpomdp.envs.sandbox.inside.protocol.channel import Closed
from llm_decpomdp.envs.sandbox.program import SandboxError
from llm_decpomdp.envs.sandbox.worker_process import Worker

if TYPE_CHECKING:
    from llm_decpomdp.envs.sandbox.pool import Pool

AHEAD = 3
"""Jobs that a worker has in hand, so that it need not wait for its next one."""

MAX_ATTEMPTS = 3
"""Deaths of a worker at the same job before it counts as our own failure."""

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
"""Signals of a crash inside the interpreter, and what is said if the same program brings it about each time."""

Job = dict[str, Any]
Result = dict[str, Any]


class Batch:
    """Jobs on their way through some workers."""

    def __init__(self, pool: Pool, jobs: Sequence[Job]) -> None:
        self.pool = pool
        self.jobs = list(jobs)
        self.queue = deque(range(len(jobs)))
        self.attempts = [0] * len(jobs)
        self.missing = len(jobs)
        self.results: list[Result] = [{}] * len(jobs)
        self.workers: list[Worker] = []

    def run(self, workers: list[Worker]) -> None:
        """Grade all jobs; the list changes with what others need and leave."""
        self.workers = workers
        with selectors.DefaultSelector() as selector:
            self.share_out()
            for worker in workers:
                selector.register(worker.descriptor, selectors.EVENT_READ, worker)
            while self.missing:
                self._wait(selector)
                self._share(selector)

    def share_out(self) -> None:
        """Give every worker its first job before any gets its second."""
        for ahead in range(1, AHEAD + 1):
            for worker in self.workers:
                self._feed(worker, ahead)

    def _share(self, selector: selectors.BaseSelector) -> None:
        """Give back workers that have nothing to do or that others wait for, and take what nobody uses."""
        workers = self.workers
        for worker in [worker for worker in workers if not worker.waiting]:
            if len(workers) > 1 and (self.pool.queue or not self.queue):
                selector.unregister(worker.descriptor)
                workers.remove(worker)
                self.pool.give_back([worker])
            else:
                self._feed(worker)
        if self.queue:
            known = len(workers)
            self.pool.take(workers, len(self.queue), patient=False)
            for worker in workers[known:]:
                self._feed(worker)
                selector.register(worker.descriptor, selectors.EVENT_READ, worker)

    def _wait(self, selector: selectors.BaseSelector) -> None:
        workers = self.workers
        for worker in workers:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.unsent else 0)
            if selector.get_key(worker.descriptor).events != events:
                selector.modify(worker.descriptor, events, worker)
        patience = min(worker.deadline for worker in workers) - time.monotonic()
        for key, _ in selector.select(max(patience, 0.0)):
            worker = key.data
            try:
                worker.flush()
                for result in worker.results():
                    self._done(worker, result)
                if not self.pool.queue:
                    self._feed(worker)
            except Closed:
                self._replace(worker, selector)
        for worker in workers:
            if worker.waiting and time.monotonic() > worker.deadline:
                worker.kill()
                self._replace(worker, selector)

    def _feed(self, worker: Worker, ahead: int = AHEAD) -> None:
        if self.pool.queue or len(self.queue) < len(self.workers):
            ahead = 1  # the others come soon
        while self.queue and len(worker.waiting) < ahead:
            index = self.queue.popleft()
            worker.send(index, self.jobs[index])

    def _done(self, worker: Worker, result: Result) -> None:
        index = worker.finished()
        self.results[index] = result
        self.missing -= 1

    def _replace(self, worker: Worker, selector: selectors.BaseSelector) -> None:
        """Start a dead worker again; the job that it was at is tried once more, or judged by how it died."""
        selector.unregister(worker.descriptor)
        status, words = worker.bury()
        jobs, worker.waiting = list(worker.waiting), deque()
        self.queue.extendleft(reversed(jobs[1:]))
        if jobs:
            self._repeat_or_judge(jobs[0], status, words)
        worker.start()
        worker.greet()
        selector.register(worker.descriptor, selectors.EVENT_READ, worker)
        self._feed(worker)

    def _repeat_or_judge(self, index: int, status: int, words: str) -> None:
        """Have the job that a worker died at tried once more, or judge it by how it died."""
        job = self.jobs[index]
        endless, fatal = status in (-signal.SIGPROF, -signal.SIGALRM), -status in FATAL
        if (endless or fatal) and job["change"]:
            # Changed results of a helper may have brought it about: they decide about the helper only.
            self.jobs[index] = {**job, "change": False}
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
                f"(exit status {status}): {words or 'without a word'}"
            )
        else:
            self.queue.appendleft(index)

    def _judge(self, index: int, status: str, text: str, by_clock: bool = False) -> None:
        """The verdict if what the program returned ended the process that was to judge it."""
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
            "reached": [0] * len(job["stages"]),
            "wall_decided": by_clock,
            "seconds": seconds,
        }
