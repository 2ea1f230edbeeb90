"""Pool of workers, and the dispatch of jobs to them.

A caller takes free workers, talks to them from its own thread, and gives them back. The pool itself has no thread,
so there is nothing to restart in a forked process. Waiting callers get workers in the order of their arrival. If a
worker dies, its job is tried again; other jobs are not affected.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from llm_decpomdp.envs.sandbox.program import ENDLESS, SandboxError
from llm_decpomdp.envs.sandbox.worker.protocol.channel import Closed
from llm_decpomdp.envs.sandbox.worker_process import WorkerProcess, WorkerSettings

# Memory that tests leak in the evaluator ends with it; a new worker takes 0.1 s.
RETIRE_AFTER = 10_000
"""Programs after which a worker is replaced by a new one."""

# One crash may be the kernel's memory killer, which hit a bystander.
MAX_ATTEMPTS = 3
"""Deaths of workers at the same job after which the sandbox itself counts as broken."""

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
"""Message for each signal of a crash that the same program causes in each attempt."""

Job = dict[str, Any]
Result = dict[str, Any]


class WorkerPool:
    """Workers with the same settings. Thread-safe.

    Args:
        size: Maximum number of workers; they are started when they are first needed.
        settings: Settings of all of them.
    """

    def __init__(self, size: int, settings: WorkerSettings) -> None:
        self.size = size
        self.settings = settings
        self.warned = False
        """True once missing layers have been reported."""
        self._lock = threading.Lock()
        self._all: WeakSet[WorkerProcess] = WeakSet()
        self._free = deque(self._new() for _ in range(size))
        """Running workers are on the right, where they are taken first."""
        self._waiters: deque[_Waiter] = deque()

    def _new(self) -> WorkerProcess:
        worker = WorkerProcess(self.settings)
        self._all.add(worker)
        return worker

    @property
    def queue(self) -> int:
        """Number of callers that wait for a worker."""
        return len(self._waiters)

    def run(self, jobs: Sequence[Job]) -> list[Result]:
        """Grade jobs; results in the order of `jobs`.

        Raises:
            SandboxError: If a worker cannot be started, or dies `MAX_ATTEMPTS` times at one job.
        """
        batch = _Dispatcher(self, jobs)
        with self._workers(len(jobs)) as workers:
            try:
                batch.run(workers)
            except OSError as error:
                raise SandboxError(f"cannot talk to the sandbox's workers: {error}") from error
        return batch.results

    def layers(self) -> dict[str, str]:
        """Return the reason why each layer of protection is off; empty if it is on."""
        with self._workers(1) as workers:
            return dict(workers[0].layers)

    def close(self) -> None:
        """End all free workers. The pool can be used again afterwards."""
        with self._lock:
            free = [worker for worker in self._free if not worker.dead]
            for worker in free:
                self._free.remove(worker)
        try:
            for worker in free:
                worker.end()
        finally:
            self.give_back(free)

    def detach(self) -> None:
        """Close this process's ends of the workers without ending them, because they belong to the parent."""
        for worker in list(self._all):
            worker.detach()

    @contextmanager
    def _workers(self, number: int) -> Iterator[list[WorkerProcess]]:
        """Borrow between one and `number` workers. `take` and `give_back` may change the list meanwhile."""
        workers: list[WorkerProcess] = []
        try:
            self.take(workers, number)
            yield workers
        finally:
            self.give_back(workers)

    def take(self, workers: list[WorkerProcess], number: int, wait: bool = True) -> None:
        """Move free workers to a list, and start those that are not running.

        Args:
            workers: List to add them to; they must be given back, also if this raises.
            number: Maximum number of workers to take.
            wait: Wait for at least one worker. Otherwise take only what no waiting caller needs.

        Raises:
            SandboxError: If no worker can be started. It is enough if some can.
        """
        size = len(workers)
        with self._lock:
            while len(self._all) < self.size:  # an interrupt lost one
                self._put_back(self._new())
            self._take_free(workers, number)
        if wait and len(workers) == size:
            self._wait(workers)
        self._start(workers)

    def _take_free(self, workers: list[WorkerProcess], number: int) -> None:
        """Move free workers to a list, unless a caller waits; needs the lock."""
        while self._free and not self._waiters and number > 0:
            workers.append(self._free.pop())
            number -= 1

    def _put_back(self, worker: WorkerProcess) -> None:
        """Give a worker to the first waiting caller, or to the free ones; needs the lock."""
        if self._waiters:
            waiter = self._waiters.popleft()
            waiter.workers.append(worker)
            waiter.ready.release()
        # Workers that run are taken first: starting another one costs 0.1 s and 15 MB.
        elif worker.dead:
            self._free.appendleft(worker)
        else:
            self._free.append(worker)

    def _start(self, workers: list[WorkerProcess]) -> None:
        """Start workers that are not running. If some can be started, the others leave the list."""
        error = None
        # All are started before the first is waited for, so that they start at the same time.
        started = []
        for worker in [worker for worker in workers if worker.dead]:
            try:
                worker.start()
                started.append(worker)
            except SandboxError as refusal:
                error = refusal
        for worker in started:
            try:
                worker.handshake()
            except SandboxError as refusal:
                error = refusal
        failed = [worker for worker in workers if worker.dead]
        if error is not None and len(failed) == len(workers):
            raise error
        for worker in failed:
            workers.remove(worker)
        self.give_back(failed)

    def _wait(self, workers: list[WorkerProcess]) -> None:
        """Wait for a worker."""
        waiter = _Waiter(workers)
        try:
            with self._lock:
                self._take_free(workers, 1)
                if workers:
                    return
                self._waiters.append(waiter)
            waiter.ready.acquire()
        except BaseException:
            with self._lock:
                if waiter in self._waiters:  # else it has its worker, which is given back
                    self._waiters.remove(waiter)
            raise

    def give_back(self, workers: list[WorkerProcess]) -> None:
        """Return the workers to the pool and empty the list. Workers that still have a job are replaced."""
        retired = []
        with self._lock:
            while workers:
                worker = workers.pop()
                if worker.job is not None or worker.served >= RETIRE_AFTER:
                    retired.append(worker)
                    worker = self._new()
                self._put_back(worker)
        for worker in retired:  # outside of the lock: it takes time, and may be interrupted
            worker.end()


class _Dispatcher:
    """Gives the jobs of one call to workers and collects the results."""

    def __init__(self, pool: WorkerPool, jobs: Sequence[Job]) -> None:
        self.pool = pool
        self.jobs = list(jobs)
        self.queue = deque(range(len(jobs)))
        self.attempts = [0] * len(jobs)
        self.missing = len(jobs)
        self.results: list[Result] = [{}] * len(jobs)
        self.workers: list[WorkerProcess] = []

    def run(self, workers: list[WorkerProcess]) -> None:
        """Grade all jobs. `workers` shrinks and grows as other callers need workers or give them back."""
        self.workers = workers
        with selectors.DefaultSelector() as selector:
            for worker in workers:
                selector.register(worker.descriptor, selectors.EVENT_READ, worker)
            while self.missing:
                self._rebalance(selector)
                self._wait(selector)

    def _rebalance(self, selector: selectors.BaseSelector) -> None:
        """Give idle workers a job, or return them if others wait or no job is left; then take free workers."""
        workers = self.workers
        for worker in [worker for worker in workers if worker.job is None]:
            # The last one is kept: without a worker this caller would have to queue again.
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

    def _dispatch(self, worker: WorkerProcess) -> None:
        index = self.queue.popleft()
        worker.send(index, self.jobs[index])

    def _wait(self, selector: selectors.BaseSelector) -> None:
        """Wait for results, and replace workers that have ended or missed their deadline."""
        workers = self.workers
        for worker in workers:
            # A large job may not fit into the socket; waiting for the worker to read it would block the other
            # workers.
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
            # The worker limits its own time; this only catches one that was stopped or hangs in the kernel.
            if time.monotonic() > worker.deadline:
                worker.kill()
                self._replace(worker, selector)

    def _replace(self, worker: WorkerProcess, selector: selectors.BaseSelector) -> None:
        """Restart a dead worker. Its job is queued again, or judged by the exit status."""
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
        """Queue the job of a dead worker again, or judge it by the exit status.

        The worker may have died in a changed run. Changed runs only decide about helpers, so the outcomes of the
        tests are used if they have arrived; otherwise the job runs again without changed runs.
        """
        job = self.jobs[index]
        # These two signals are the timers of `limit_time`: the test itself did not end on the program's values.
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
        """Record the verdict on a program whose values crashed or blocked the evaluator."""
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


class _Waiter:
    """A caller that waits.

    Args:
        workers: List that its worker is added to.
    """

    def __init__(self, workers: list[WorkerProcess]) -> None:
        self.workers = workers
        self.ready = threading.Lock()
        self.ready.acquire()


POOLS: dict[tuple[int, WorkerSettings, str], WorkerPool] = {}
"""Pools of this process, shared by all sandboxes with equal settings."""

_lock = threading.Lock()


def shared_pool(size: int, settings: WorkerSettings) -> WorkerPool:
    """Return the pool for these settings."""
    # Tests and launchers may change `sys.executable`.
    key = (size, settings, sys.executable)
    with _lock:
        if key not in POOLS:
            POOLS[key] = WorkerPool(size, settings)
        return POOLS[key]


def close_all() -> None:
    """End all workers of this process."""
    for pool in list(POOLS.values()):
        pool.close()


def _detach_all() -> None:
    """Detach a forked process from its parent's workers, which must see their parent's end."""
    global _lock
    _lock = threading.Lock()
    for pool in POOLS.values():
        # The child must not hold these sockets: workers end when the last end of their socket is closed.
        pool.detach()
    POOLS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_detach_all)
