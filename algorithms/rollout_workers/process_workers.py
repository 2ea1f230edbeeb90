"""A rollout worker of processes on this machine."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch

from llm_decpomdp.algorithms.rollout_workers.pool import RolloutWorkerPool, WorkerHandle
from llm_decpomdp.algorithms.rollout_workers.worker_process import (
    BatchFailure,
    BatchResult,
    MakeWorkerState,
    RolloutRequest,
    WorkerReady,
    WorkerSetup,
    save_weights,
    work,
)
from llm_decpomdp.policy import TrainablePolicy

if TYPE_CHECKING:
    from llm_decpomdp.agents.remote.sampler import RemoteSampler

LAST_LINES = 12
"""Lines of a dead worker's log that an error shows."""

PATIENCE = 5.0
"""Seconds that a worker has to end, once it was terminated."""


class ProcessRolloutWorkers(RolloutWorkerPool):
    """Plays batches in processes of their own; a batch whose process dies is played again by a new one.

    Args:
        build: Makes environments and team of a worker, in the worker: the same in each as those of the learner,
            whose weights are published to them.
        workers: Number of processes, at least 1. They start with the first batches.
        max_retries: Most times that a batch is played again.
        samplers: As of `RolloutWorkerPool`.

    Raises:
        ValueError: If there are no workers, or `max_retries` is negative.
    """

    def __init__(
        self,
        build: MakeWorkerState,
        workers: int,
        max_retries: int = 3,
        samplers: Mapping[str, RemoteSampler] | None = None,
    ) -> None:
        super().__init__(workers, max_retries, samplers)
        self._build = pickle.dumps(build)
        self._folder: TemporaryDirectory[str] | None = None
        self._publications = 0
        self._started = 0

    @property
    def folder(self) -> Path:
        """Folder of the weights and logs, until the rollout worker is closed."""
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="llm_decpomdp-workers-")
        return Path(self._folder.name)

    def _store(self, policies: Mapping[str, TrainablePolicy], version: int) -> Path:
        self._publications += 1
        path = self.folder / f"weights-{self._publications}-of-version-{version}.pt"
        save_weights(policies, path)
        if self._supply.weights is not None:
            self._supply.weights.unlink()
        return path

    def _start(self) -> ProcessHandle:
        self._started += 1
        device = torch.cuda.current_device() if torch.cuda.is_available() else None
        log = self.folder / f"worker-{self._started}.log"
        return ProcessHandle(log, WorkerSetup(self._build, torch.get_num_threads(), device))

    def close(self) -> None:
        """End the workers, and remove weights and logs."""
        super().close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _speaking(self) -> list[ProcessHandle]:
        speaking = wait([worker.connection for worker in self.workers])
        return [worker for worker in self.workers if worker.connection in speaking]


class ProcessHandle(WorkerHandle):
    """A worker as its pool sees it.

    Args:
        log: File that takes whatever it says.
        setup: What it begins with.
    """

    def __init__(self, log: Path, setup: WorkerSetup) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would share torch's threads
        self.connection, far_end = context.Pipe()
        self.process = context.Process(target=work, args=(log, far_end), daemon=True)
        self.process.start()
        far_end.close()  # so that the connection ends with the worker
        with suppress(
            OSError
        ):  # it could not start, which `receive` will tell; `start` would wait for ever
            self.connection.send(setup)
        self.log = log
        self._ready = False
        self._sent = True  # a large order would wait for the worker's first read

    def give(self, place: int, order: RolloutRequest) -> None:
        """Let the worker play a batch, once it is ready."""
        self.place, self.order, self._sent = place, order, False
        self._send()

    def _send(self) -> None:
        if self._ready and not self._sent:
            with suppress(OSError):  # it has just died, which `receive` will tell
                self.connection.send(self.order)
            self._sent = True

    def receive(self) -> WorkerReady | BatchResult | BatchFailure | None:
        """Return what the worker says; `None` if it has died."""
        try:
            message: WorkerReady | BatchResult | BatchFailure = self.connection.recv()
        except (EOFError, OSError):
            return None
        if isinstance(message, WorkerReady):
            self._ready = True
            self._send()
        return message

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
        nothing = "(it is empty: what keeps a worker from starting stands further up)"
        return "\n".join(text.splitlines()[-LAST_LINES:]) or nothing
