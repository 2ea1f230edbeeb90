"""The pool of workers: who has which job, and what happens when a worker dies.

A caller takes workers that are free, talks to them from its own thread (`batch.py`), and puts them back; there is
no thread of ours. Callers that wait get their workers in the order in which they came.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from llm_decpomdp.envs.sandbox.batch import Batch, Job, Result
from llm_decpomdp.envs.sandbox.program import SandboxError
from llm_decpomdp.envs.sandbox.worker_process import Worker

RETIRE_AFTER = 10_000
"""Programs after which a worker is replaced by a fresh one."""

Names = tuple[str, ...]


class Pool:
    """Workers of one kind. Thread-safe.

    Args:
        size: Most workers at the same time; they are started when they are first needed.
        without: Layers of protection to leave off.
        require: Layers without which no worker may start.
        seed: Of the hashes of strings, and of `random` in the programs.
        packages: Files and folders of the installed packages that programs may import.
    """

    def __init__(
        self, size: int, without: Names, require: Names, seed: int, packages: Names = ()
    ) -> None:
        self.size = size
        self.seed = seed
        self.packages = packages
        self.without = without
        self.require = require
        self.warned = False
        """Whether missing layers have been told about."""
        self._lock = threading.Lock()
        self._all: WeakSet[Worker] = WeakSet()
        self._free = deque(self._new() for _ in range(size))
        """Those that have been started are to the right."""
        self._turns: deque[_Turn] = deque()

    def _new(self) -> Worker:
        worker = Worker(self.without, self.require, self.seed, self.packages)
        self._all.add(worker)
        return worker

    @property
    def queue(self) -> int:
        """Callers that wait for a worker."""
        return len(self._turns)

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
        """For each layer of protection why it is not on; empty if it is."""
        with self._workers(1) as workers:
            return dict(workers[0].layers)

    def close(self) -> None:
        """End all workers that are free. The pool can be used again afterwards."""
        with self._lock:
            free = [worker for worker in self._free if not worker.dead]
            for worker in free:
                self._free.remove(worker)
        try:
            for worker in free:
                worker.end()
        finally:
            self.give_back(free)

    def forget(self) -> None:
        """Let go of the workers without ending them: in a forked process they are somebody else's."""
        for worker in list(self._all):
            worker.forget()

    @contextmanager
    def _workers(self, wanted: int) -> Iterator[list[Worker]]:
        """At least one worker, at most `wanted`; the list may be changed by `take` and `give_back`."""
        workers: list[Worker] = []
        try:
            self.take(workers, wanted)
            yield workers
        finally:
            self.give_back(workers)

    def take(self, workers: list[Worker], wanted: int, patient: bool = True) -> None:
        """Move free workers to a list, and start those that do not run.

        Args:
            workers: Where to put them; they are to be given back, also if this raises.
            wanted: Most workers to take.
            patient: Whether to wait for at least one; if not, those who do wait come first.

        Raises:
            SandboxError: If none can be started; some are enough.
        """
        known = len(workers)
        with self._lock:
            while len(self._all) < self.size:  # an interrupt at the wrong moment has lost one
                self._put_back(self._new())
            self._grab(workers, wanted)
        if patient and len(workers) == known:
            self._wait(workers)
        self._start(workers)

    def _grab(self, workers: list[Worker], wanted: int) -> None:
        """Move what is free to a list, if nobody waits; needs the lock."""
        while self._free and not self._turns and wanted > 0:
            workers.append(self._free.pop())
            wanted -= 1

    def _put_back(self, worker: Worker) -> None:
        """Give a worker to the next who waits, or to whoever comes; needs the lock."""
        if self._turns:
            turn = self._turns.popleft()
            turn.workers.append(worker)
            turn.come.release()
        elif worker.dead:
            self._free.appendleft(worker)
        else:
            self._free.append(worker)

    def _start(self, workers: list[Worker]) -> None:
        """Start those that do not run; those that cannot be started leave the list, if there are others."""
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
                worker.greet()
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
        turn = _Turn(workers)
        try:
            with self._lock:
                self._grab(workers, 1)
                if workers:
                    return
                self._turns.append(turn)
            turn.come.acquire()
        except BaseException:
            with self._lock:
                if turn in self._turns:  # else its worker has come, and is given back
                    self._turns.remove(turn)
            raise

    def give_back(self, workers: list[Worker]) -> None:
        """Let others have the workers, and empty the list; those that are not idle are ended."""
        ended = []
        with self._lock:
            while workers:
                worker = workers.pop()
                if worker.waiting or worker.served >= RETIRE_AFTER:
                    ended.append(worker)
                    worker = self._new()
                self._put_back(worker)
        for worker in ended:  # afterwards: it takes time, and may be interrupted
            worker.end()


class _Turn:
    """Of a caller that waits.

    Args:
        workers: Where it wants its worker.
    """

    def __init__(self, workers: list[Worker]) -> None:
        self.workers = workers
        self.come = threading.Lock()
        self.come.acquire()


POOLS: dict[tuple[Any, ...], Pool] = {}
"""The pools of this process, shared by all sandboxes with equal settings."""

_lock = threading.Lock()


def shared_pool(size: int, without: Names, require: Names, seed: int, packages: Names = ()) -> Pool:
    """The pool for these settings."""
    key = (size, without, require, seed, packages, sys.executable)
    with _lock:
        if key not in POOLS:
            POOLS[key] = Pool(size, without, require, seed, packages)
        return POOLS[key]


def close_all() -> None:
    """End all workers of this process."""
    for pool in list(POOLS.values()):
        pool.close()


def _forget_all() -> None:
    """A forked process has workers of its own: those of its parent must see their parent's end."""
    global _lock
    _lock = threading.Lock()
    for pool in POOLS.values():
        pool.forget()
    POOLS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
