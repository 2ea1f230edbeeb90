"""Transport of jobs to a pool of workers, and of their results back.

A thread takes free workers, talks to them, and gives them back. The pool itself has no thread, so there is
nothing to restart in a forked process. Waiting threads get workers in the order of their arrival. If a worker
dies, its job is tried again; other jobs are not affected.
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

from llm_decpomdp.envs.sandbox.program import ENDLESS, SandboxError, WorkerResult
from llm_decpomdp.envs.sandbox.worker.protocol.channel import Closed
from llm_decpomdp.envs.sandbox.worker_process import WorkerProcess, WorkerSettings

# Memory that tests leak in the evaluator ends with it; a new worker takes 0.1 s.
RETIRE_AFTER = 10_000  # programs after which a worker is replaced by a new one
# Deaths of workers at the same job after which the sandbox itself counts as broken. One crash may be the kernel's
# memory killer, which hit a bystander.
MAX_ATTEMPTS = 3
# Signals of a crash that the same program causes in each attempt.
FATAL = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)

Job = dict[str, Any]


class WorkerPool:
    """Up to `size` workers with the same settings, which are started when they are first needed. Thread-safe."""

    def __init__(self, size: int, settings: WorkerSettings) -> None:
        self.size = size
        self.settings = settings
        self.warned = False  # True once missing layers have been reported
        self._lock = threading.Lock()
        self._all: WeakSet[WorkerProcess] = WeakSet()
        self._free = deque(self._new() for _ in range(size))
        """Running workers are on the right, where they are taken first."""
        self._waiters: deque[_Waiter] = deque()

    def _new(self) -> WorkerProcess:
        """Make a worker that is not running yet."""
        worker = WorkerProcess(self.settings)
        self._all.add(worker)
        return worker

    @property
    def queue(self) -> int:
        """Number of threads that wait for a worker."""
        return len(self._waiters)

    def run(self, jobs: Sequence[Job]) -> list[WorkerResult]:
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
        """Move up to `number` free workers to a list, and start those that are not running.

        The workers must be given back, also if this raises. Without `wait`, workers are only taken if no thread
        waits for them, and it may be none.

        Raises:
            SandboxError: If no worker can be started. It is enough if some can.
        """
        size = len(workers)
        waiter = _Waiter(workers)
        try:
            with self._lock:
                while len(self._all) < self.size:  # an interrupt lost one
                    self._put_back(self._new())
                while self._free and not self._waiters and len(workers) < size + number:
                    workers.append(self._free.pop())
                if len(workers) > size or not wait:
                    waiter.ready.release()
                else:
                    self._waiters.append(waiter)
            waiter.ready.acquire()
        except BaseException:
            with self._lock:
                if waiter in self._waiters:  # else it has its worker, which is given back
                    self._waiters.remove(waiter)
            raise
        self._start(workers)

    def _put_back(self, worker: WorkerProcess) -> None:
        """Give a worker to the first waiting thread, or to the free ones; needs the lock."""
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
        self.results: list[Any] = [None] * len(jobs)
        self.workers: list[WorkerProcess] = []

    def run(self, workers: list[WorkerProcess]) -> None:
        """Grade all jobs. `workers` shrinks and grows as other threads need workers or give them back."""
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
            # The last one is kept: without a worker this thread would have to queue again.
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
                self._finish(index, result)
        for worker in workers:
            # The worker limits its own time; this only catches one that was stopped or hangs in the kernel.
            if time.monotonic() > worker.deadline:
                worker.kill()
                self._replace(worker, selector)

    def _replace(self, worker: WorkerProcess, selector: selectors.BaseSelector) -> None:
        """Restart a dead worker. Its job is queued again, or decided by the exit status."""
        selector.unregister(worker.descriptor)
        status, stderr = worker.reap()
        if worker.job is not None:
            self._repeat_or_decide(worker, worker.job, status, stderr)
        worker.start()
        worker.handshake()
        selector.register(worker.descriptor, selectors.EVENT_READ, worker)

    def _repeat_or_decide(
        self, worker: WorkerProcess, index: int, status: int, stderr: str
    ) -> None:
        """Queue the job of a dead worker again, or decide its result by the exit status."""
        job, seconds_left = self.jobs[index], worker.seconds_left
        # These two signals are the timers of `limit_time`: the test itself did not end on the program's values.
        endless, fatal = status in (-signal.SIGPROF, -signal.SIGALRM), -status in FATAL
        # The worker may have died in a mutant run. These only decide about helpers: the outcomes of the tests
        # count if they have arrived; otherwise the job runs again without mutant runs.
        if (endless or fatal) and worker.tests_result is not None:
            return self._finish(index, worker.tests_result)
        if (endless or fatal) and job["check_helpers"] and seconds_left > 0:
            limits = {**job["limits"], "job_seconds": seconds_left}
            self.jobs[index] = {**job, "check_helpers": False, "limits": limits}
            self.jobs[index]["tests_seconds"] = seconds_left
        else:
            self.attempts[index] += 1
            if endless:
                text = ENDLESS.format(seconds=job["limits"]["test_seconds"])
                by_clock = status == -signal.SIGALRM
                return self._finish(index, _failed_result(job, "timeout", text, by_clock))
            if self.attempts[index] >= MAX_ATTEMPTS:
                if not fatal:
                    raise SandboxError(
                        f"the sandbox's worker died {MAX_ATTEMPTS} times at one program "
                        f"(exit status {status}): {stderr or 'without a word'}"
                    )
                name = signal.Signals(-status).name
                text = f"the program's values crashed the interpreter of the test ({name})"
                return self._finish(index, _failed_result(job, "crashed", text, False))
        self.queue.appendleft(index)

    def _finish(self, index: int, result: WorkerResult) -> None:
        self.results[index] = result
        self.missing -= 1


def _failed_result(job: Job, status: str, message: str, wall_decided: bool) -> WorkerResult:
    """Return the result of a program whose values crashed or blocked the evaluator."""
    tests, helpers = len(job["stages"]), len(job["helpers"])
    return {
        "tests": [[False, status, message, "", 0]] * tests,
        "error": None,
        "output": "",
        "helper_calls": [0] * helpers,
        "helpers_used": [False] * helpers,
        "helpers_suffice": [False] * helpers,
        "main_adds": [],
        "helpers_add": [],
        "reached": [0] * tests,
        "wall_decided": wall_decided,
        "seconds": job["limits"]["test_seconds"],
    }


class _Waiter:
    """A thread that waits for a worker, which is added to `workers`."""

    def __init__(self, workers: list[WorkerProcess]) -> None:
        self.workers = workers
        self.ready = threading.Lock()
        self.ready.acquire()


# Pools of this process, shared by all sandboxes with equal settings.
POOLS: dict[tuple[int, WorkerSettings, str], WorkerPool] = {}

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
