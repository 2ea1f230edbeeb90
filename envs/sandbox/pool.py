"""The pool of workers: who has which job, and what happens when a worker dies.

A caller takes workers that are free, talks to them from its own thread, and puts them back; there is no thread
of ours. A worker that dies costs the job it was at another attempt, and the jobs queued behind it nothing.
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

from llm_decpomdp.envs.sandbox.inside.channel import Closed
from llm_decpomdp.envs.sandbox.program import SandboxError
from llm_decpomdp.envs.sandbox.workers import Worker

AHEAD = 3
"""Jobs that a worker has in hand, so that it need not wait for its next one."""

MAX_ATTEMPTS = 3
"""Deaths of a worker at the same job before it counts as our own failure."""

ENDLESS = "TimeoutError: the test did not end on the program's values within {seconds:g} seconds"

FATAL = {
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

RETIRE_AFTER = 10_000
"""Programs after which a worker is replaced by a fresh one."""

Job = dict[str, Any]
Result = dict[str, Any]
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
        self._free: list[Worker] = []
        self._all: WeakSet[Worker] = WeakSet()
        self._busy = 0
        self.queue = 0
        """Callers that wait for a worker."""
        self.warned = False
        """Whether missing layers have been told about."""
        self._changed = threading.Condition()

    def run(self, jobs: Sequence[Job]) -> list[Result]:
        """Grade jobs; results in the order of `jobs`.

        Raises:
            SandboxError: If a worker cannot be started, or dies again and again at a job.
        """
        batch = _Batch(self, jobs)
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
        with self._changed:
            free, self._free = self._free, []
        for worker in free:
            worker.close()

    def forget(self) -> None:
        """Let go of the workers without ending them: in a forked process they are somebody else's."""
        for worker in list(self._all):
            worker.forget()

    @contextmanager
    def _workers(self, wanted: int) -> Iterator[list[Worker]]:
        """At least one worker, at most `wanted`; the list may be changed by `take` and `give_back`."""
        workers = self.take(wanted)
        try:
            yield workers
        finally:
            self.give_back(workers)

    def take(self, wanted: int, patient: bool = True) -> list[Worker]:
        """Workers that are free.

        Args:
            wanted: Most workers to take.
            patient: Whether to wait for at least one; if not, those who do wait come first.
        """
        with self._changed:
            if not patient and (self.queue or self._busy >= self.size):
                return []
            self._wait_for_one()
            number = max(1, min(wanted, self.size - self._busy))
            self._busy += number
            taken = [self._free.pop() for _ in range(min(number, len(self._free)))]
        fresh: list[Worker] = []
        try:
            while len(fresh) < number - len(taken):
                fresh.append(Worker(self.without, self.require, self.seed, self.packages))
                self._all.add(fresh[-1])
            for worker in fresh:
                worker.greet()
        except BaseException:
            for worker in fresh:
                worker.kill()
                worker.bury()
            self.give_back(taken, number)
            raise
        return taken + fresh

    def _wait_for_one(self) -> None:
        """Wait until a worker is free; needs the lock."""
        self.queue += 1
        try:
            while self._busy >= self.size:
                self._changed.wait()
        except BaseException:
            self._changed.notify()  # what this caller may have been woken for is for another one
            raise
        finally:
            self.queue -= 1

    def give_back(self, workers: Sequence[Worker], number: int | None = None) -> None:
        """Let others have the workers; those that are not idle are killed.

        Args:
            workers: The workers.
            number: How many were taken, if some of them never came to be.
        """
        for worker in workers:
            if worker.waiting and not worker.dead:
                worker.kill()
                worker.bury()
            elif worker.served >= RETIRE_AFTER and not worker.dead:
                worker.close()
        number = len(workers) if number is None else number
        with self._changed:
            self._busy -= number
            self._free += [worker for worker in workers if not worker.dead]
            self._changed.notify(number)  # waking all who wait would take longer than many programs


class _Batch:
    """Jobs on their way through some workers."""

    def __init__(self, pool: Pool, jobs: Sequence[Job]) -> None:
        self.pool = pool
        self.jobs = jobs
        self.queue = deque(range(len(jobs)))
        self.attempts = [0] * len(jobs)
        self.missing = len(jobs)
        self.results: list[Result] = [{}] * len(jobs)

    def run(self, workers: list[Worker]) -> None:
        with selectors.DefaultSelector() as selector:
            for worker in workers:
                self._feed(worker)
                selector.register(worker.descriptor, selectors.EVENT_READ, worker)
            while self.missing:
                self._wait(selector, workers)
                self._share(selector, workers)

    def _share(self, selector: selectors.BaseSelector, workers: list[Worker]) -> None:
        """Give back workers that have nothing to do or that others wait for, and take what nobody uses."""
        for worker in [worker for worker in workers if not worker.waiting]:
            if len(workers) > 1 and (self.pool.queue or not self.queue):
                selector.unregister(worker.descriptor)
                workers.remove(worker)
                self.pool.give_back([worker])
            else:
                self._feed(worker)
        if self.queue:
            for worker in self.pool.take(len(self.queue), patient=False):
                workers.append(worker)
                self._feed(worker)
                selector.register(worker.descriptor, selectors.EVENT_READ, worker)

    def _wait(self, selector: selectors.BaseSelector, workers: list[Worker]) -> None:
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

    def _feed(self, worker: Worker) -> None:
        ahead = 1 if self.pool.queue else AHEAD
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
            index = jobs[0]
            self.attempts[index] += 1
            if status in (-signal.SIGPROF, -signal.SIGALRM):
                self._judge(index, "timeout", ENDLESS, status == -signal.SIGALRM)
            elif -status in FATAL and self.attempts[index] >= MAX_ATTEMPTS:
                self._judge(index, "crashed", FATAL[-status])
            elif self.attempts[index] >= MAX_ATTEMPTS:
                raise SandboxError(
                    f"the sandbox's worker died {MAX_ATTEMPTS} times at one program "
                    f"(exit status {status}): {words or 'without a word'}"
                )
            else:
                self.queue.appendleft(index)
        worker.restart()
        selector.register(worker.descriptor, selectors.EVENT_READ, worker)
        self._feed(worker)

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
            "reached": [0] * len(job["stages"]),
            "wall_decided": by_clock,
            "seconds": seconds,
        }


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
