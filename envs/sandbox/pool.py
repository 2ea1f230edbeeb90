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


class _Batch:
    """Jobs on their way through some workers."""

    def __init__(self, pool: Pool, jobs: Sequence[Job]) -> None:
        self.pool = pool
        self.jobs = jobs
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
        worker.start()
        worker.greet()
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
