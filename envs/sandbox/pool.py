"""Pool of workers.

A caller takes free workers, talks to them from its own thread (`batch.py`), and puts them back; the pool has no
thread. Waiting callers get their workers in the order in which they came.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakSet

from llm_decpomdp.envs.sandbox.batch import Batch, Job, Result
from llm_decpomdp.envs.sandbox.program import SandboxError
from llm_decpomdp.envs.sandbox.worker_process import Settings, Worker

RETIRE_AFTER = 10_000
"""Programs after which a worker is replaced by a fresh one."""


class Pool:
    """Workers with the same settings. Thread-safe.

    Args:
        size: Maximum number of workers; they are started when they are first needed.
        settings: Settings of all of them.
    """

    def __init__(self, size: int, settings: Settings) -> None:
        self.size = size
        self.settings = settings
        self.warned = False
        """True once missing layers have been reported."""
        self._lock = threading.Lock()
        self._all: WeakSet[Worker] = WeakSet()
        self._free = deque(self._new() for _ in range(size))
        """Running workers are to the right."""
        self._waiters: deque[_Waiter] = deque()

    def _new(self) -> Worker:
        worker = Worker(self.settings)
        self._all.add(worker)
        return worker

    @property
    def queue(self) -> int:
        """Number of callers that wait for a worker."""
        return len(self._waiters)

    def run(self, jobs: Sequence[Job]) -> list[Result]:
        """Grade jobs; results in the order of `jobs`.

        Raises:
            SandboxError: If a worker cannot be started, or dies again and again at a job.
        """
        batch = Batch(self, jobs)
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
        """Close this process's ends of the workers without ending them: they belong to the parent."""
        for worker in list(self._all):
            worker.detach()

    @contextmanager
    def _workers(self, number: int) -> Iterator[list[Worker]]:
        """Borrow at least one worker, at most `number`; `take` and `give_back` may change the list."""
        workers: list[Worker] = []
        try:
            self.take(workers, number)
            yield workers
        finally:
            self.give_back(workers)

    def take(self, workers: list[Worker], number: int, wait: bool = True) -> None:
        """Move free workers to a list, and start those that are not running.

        Args:
            workers: List to add them to; they must be given back, also if this raises.
            number: Maximum number of workers to take.
            wait: Wait for at least one; otherwise callers that do wait come first.

        Raises:
            SandboxError: If none can be started; some are enough.
        """
        size = len(workers)
        with self._lock:
            while len(self._all) < self.size:  # an interrupt lost one
                self._put_back(self._new())
            self._take_free(workers, number)
        if wait and len(workers) == size:
            self._wait(workers)
        self._start(workers)

    def _take_free(self, workers: list[Worker], number: int) -> None:
        """Move free workers to a list, unless a caller waits; needs the lock."""
        while self._free and not self._waiters and number > 0:
            workers.append(self._free.pop())
            number -= 1

    def _put_back(self, worker: Worker) -> None:
        """Give a worker to the first waiting caller, or to the free ones; needs the lock."""
        if self._waiters:
            waiter = self._waiters.popleft()
            waiter.workers.append(worker)
            waiter.ready.release()
        elif worker.dead:
            self._free.appendleft(worker)
        else:
            self._free.append(worker)

    def _start(self, workers: list[Worker]) -> None:
        """Start workers that are not running; those that cannot be started leave the list, if any can."""
        error = None
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

    def _wait(self, workers: list[Worker]) -> None:
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

    def give_back(self, workers: list[Worker]) -> None:
        """Return the workers to the pool and empty the list; those that are not idle are ended."""
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


class _Waiter:
    """A caller that waits.

    Args:
        workers: List that its worker is added to.
    """

    def __init__(self, workers: list[Worker]) -> None:
        self.workers = workers
        self.ready = threading.Lock()
        self.ready.acquire()


POOLS: dict[tuple[int, Settings, str], Pool] = {}
"""Pools of this process, shared by all sandboxes with equal settings."""

_lock = threading.Lock()


def shared_pool(size: int, settings: Settings) -> Pool:
    """Return the pool for these settings."""
    key = (size, settings, sys.executable)
    with _lock:
        if key not in POOLS:
            POOLS[key] = Pool(size, settings)
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
        pool.detach()
    POOLS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_detach_all)
