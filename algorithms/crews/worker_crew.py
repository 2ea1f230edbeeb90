"""A crew of processes on this machine."""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import signal
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from llm_decpomdp.algorithms.crews.bundles import Bundle
from llm_decpomdp.algorithms.crews.options import CrewError
from llm_decpomdp.algorithms.crews.worker import (
    Build,
    Failed,
    Order,
    Played,
    Ready,
    Setup,
    save_weights,
    work,
)
from llm_decpomdp.algorithms.rollouts.long_prompts import label
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.algorithms.rollouts.sampling import Stopwatch
from llm_decpomdp.policy import TrainablePolicy

logger = logging.getLogger(__name__)

LAST_LINES = 12
"""Lines of a dead worker's log that an error shows."""

PATIENCE = 5.0
"""Seconds that a worker has to end, once it was terminated."""


class WorkerCrew:
    """Plays bundles in processes of their own; a bundle whose process dies is played again by a new one.

    Args:
        build: Makes environments and team of a worker, in the worker: the same in each as those of the learner,
            whose weights are published to them.
        workers: Number of processes, at least 1. They start with the first bundles.
        max_redo: Most times that a bundle is played again.

    Raises:
        ValueError: If there are no workers, or `max_redo` is negative.
    """

    def __init__(self, build: Build, workers: int, max_redo: int = 3) -> None:
        if workers < 1 or max_redo < 0:
            raise ValueError(
                f"workers must be at least 1 and max_redo at least 0, got {workers} and {max_redo}"
            )
        self.number, self.max_redo = workers, max_redo
        self._build = pickle.dumps(build)
        self.workers: list[Worker] = []
        """Those that have been started."""
        self._folder: TemporaryDirectory[str] | None = None
        self._weights: Path | None = None
        self._begun: Sequence[Bundle] = ()
        self._publications = 0
        self._started = 0

    @property
    def folder(self) -> Path:
        """Folder of the weights and logs, until the crew is closed."""
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="llm_decpomdp-crew-")
        return Path(self._folder.name)

    def publish(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Write new weights to a file; each worker reads it before its next bundle."""
        self._publications += 1
        path = self.folder / f"weights-{self._publications}-of-version-{version}.pt"
        save_weights(policies, path)
        if self._weights is not None:
            self._weights.unlink()
        self._weights = path

    def begin(self, bundles: Sequence[Bundle]) -> None:
        """Let each worker play one of the bundles, before `roll` is asked for all of them."""
        self._hire(len(bundles))
        for place, worker in enumerate(self.workers[: len(bundles)]):
            worker.give(place, Order(bundles[place], self._weights))
        self._begun = bundles

    def roll(self, bundles: Sequence[Bundle], clock: Stopwatch) -> list[list[Rollout]]:
        """Play bundles, as many at a time as there are workers; those that were begun go on.

        Raises:
            CrewError: If workers have died of one bundle again and again; names its starts.
        """
        try:
            results = self._roll(bundles)
        except BaseException:
            self._stop()  # some are at work on bundles that nobody waits for any more
            raise
        for result in results:
            for activity, seconds in result.seconds.items():
                clock.seconds[activity] = clock.seconds.get(activity, 0.0) + seconds
        return [result.rollouts for result in results]

    def _roll(self, bundles: Sequence[Bundle]) -> list[Played]:
        assert not self._begun or list(self._begun) == list(bundles), "others were begun"
        self._begun = ()
        begun = {worker.place for worker in self.workers}
        waiting = deque(place for place in range(len(bundles)) if place not in begun)
        results: dict[int, Played] = {}
        deaths: Counter[int] = Counter()
        while len(results) < len(bundles):
            busy = sum(worker.place is not None for worker in self.workers)
            self._hire(busy + len(waiting))
            for worker in self.workers:
                if worker.place is None and waiting:
                    place = waiting.popleft()
                    worker.give(place, Order(bundles[place], self._weights))
            for worker in _speaking(self.workers):
                message = worker.receive()
                if isinstance(message, Failed):
                    raise message.error from message.cause
                if isinstance(message, Played):
                    results[worker.finish()] = message
                elif message is None:
                    self.workers.remove(worker)
                    how = worker.end()
                    if worker.place is not None:
                        deaths[worker.place] += 1
                        self._redo(worker, how, bundles[worker.place], deaths[worker.place])
                        waiting.appendleft(worker.place)
        return [results[place] for place in range(len(bundles))]

    def _redo(self, worker: Worker, how: str, bundle: Bundle, deaths: int) -> None:
        """Warn of a worker that has died and whose bundle is played again.

        Raises:
            CrewError: If it is one too many.
        """
        starts = ", ".join(map(label, bundle.starts))
        task = f"bundle {bundle.index} of {bundle.purpose} (starts: {starts})"
        if deaths > self.max_redo:
            raise CrewError(
                f"{deaths} workers have died while they played {task}, the last one by {how}. Where that is "
                "SIGKILL, memory was likely short: take fewer rollout_workers or smaller bundles. The "
                f"end of its log:\n{worker.last_lines()}"
            )
        logger.warning("a rollout worker has died by %s: %s is played again", how, task)

    def _hire(self, bundles: int) -> None:
        """Start workers until there are enough for so many bundles, or all."""
        while len(self.workers) < min(self.number, bundles):
            self.workers.append(self._start())

    def _start(self) -> Worker:
        self._started += 1
        device = torch.cuda.current_device() if torch.cuda.is_available() else None
        log = self.folder / f"worker-{self._started}.log"
        return Worker(Setup(self._build, log, torch.get_num_threads(), device))

    def _stop(self) -> None:
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            worker.end()
        self.workers.clear()
        self._begun = ()

    def close(self) -> None:
        """End the workers, and remove weights and logs."""
        self._stop()
        self._weights = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


class Worker:
    """A worker as its crew sees it.

    Args:
        setup: What it begins with.
    """

    def __init__(self, setup: Setup) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would share torch's threads
        self.connection, far_end = context.Pipe()
        self.process = context.Process(target=work, args=(setup, far_end), daemon=True)
        self.process.start()
        far_end.close()  # so that the connection ends with the worker
        self.log = setup.log
        self.place: int | None = None
        """Place of the bundle that it was given."""
        self._ready = False
        self._order: Order | None = (
            None  # not sent yet: a large one would wait for the worker's first read
        )

    def give(self, place: int, order: Order) -> None:
        """Let the worker play a bundle, once it is ready."""
        self.place, self._order = place, order
        self._send()

    def _send(self) -> None:
        if self._ready and self._order is not None:
            with suppress(OSError):  # it has just died, which `receive` will tell
                self.connection.send(self._order)
            self._order = None

    def receive(self) -> Ready | Played | Failed | None:
        """Return what the worker says; `None` if it has died."""
        try:
            message: Ready | Played | Failed = self.connection.recv()
        except (EOFError, OSError):
            return None
        if isinstance(message, Ready):
            self._ready = True
            self._send()
        return message

    def finish(self) -> int:
        """Note that the bundle is played, and return its place."""
        assert self.place is not None, "the worker was given a bundle"
        place, self.place = self.place, None
        return place

    def terminate(self) -> None:
        """Ask the process to end."""
        self.connection.close()
        self.process.terminate()

    def end(self) -> str:
        """Wait for the end of the process, kill it if it takes long, and return its cause."""
        self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        code = self.process.exitcode
        assert code is not None, self.process
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def last_lines(self) -> str:
        """Return the end of the worker's log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-LAST_LINES:]) or "(it is empty)"


def _speaking(workers: Sequence[Worker]) -> list[Worker]:
    """Wait for workers that have something to say, or have died."""
    speaking = wait([worker.connection for worker in workers])
    return [worker for worker in workers if worker.connection in speaking]
