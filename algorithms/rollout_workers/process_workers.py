"""Rollout workers as processes on this machine: their pool, and what each process runs."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import shutil
import signal
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import torch

from llm_decpomdp.algorithms.rollout_workers.base import WorkerState
from llm_decpomdp.algorithms.rollout_workers.pool import (
    BatchFailure,
    BatchResult,
    MakeWorkerState,
    RolloutRequest,
    RolloutWorkerPool,
    WorkerHandle,
    WorkerReady,
    load_states,
    sample_batch,
    save_weights,
)
from llm_decpomdp.policy import TrainablePolicy

if TYPE_CHECKING:
    from llm_decpomdp.agents.remote.sampler import RemoteSampler

Serve = Callable[[Connection, WorkerState], None]
"""Answers the requests of a connection to the pool, until its other end closes."""

LAST_LINES = 12  # of a dead worker's log that an error shows
PATIENCE = 5.0  # seconds that a worker has to end after it was asked to


class ProcessRolloutWorkers(RolloutWorkerPool):
    """Samples batches in processes; the batch of a process that dies is sampled again by a new one.

    Args:
        make_state: Makes environments and team of a worker, in the worker: equal to those of the learner, whose
            weights are sent to them.
        workers: Number of processes, at least 1. They start with the first batches.
        max_retries: Maximum number of times that a batch is sampled again.
        samplers: As for `RolloutWorkerPool`.

    Raises:
        ValueError: If there are no workers, or `max_retries` is negative.
    """

    def __init__(
        self,
        make_state: MakeWorkerState,
        workers: int,
        max_retries: int = 3,
        samplers: Mapping[str, RemoteSampler] | None = None,
    ) -> None:
        super().__init__(workers, max_retries, samplers)
        # Pickled at once, so that what cannot be sent is an error before the run begins.
        self._make_state = pickle.dumps(make_state)
        self._folder: TemporaryDirectory[str] | None = None
        self._updates = 0
        self._started = 0

    @property
    def folder(self) -> Path:
        """Folder of the weights and logs, until the pool is closed."""
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="llm_decpomdp-workers-")
        return Path(self._folder.name)

    def _store(self, policies: Mapping[str, TrainablePolicy], version: int) -> Path:
        # Each file has a new name, by which workers see that they have to load it.
        self._updates += 1
        path = self.folder / f"weights-{self._updates}-of-version-{version}.pt"
        save_weights(policies, path)
        if self._weights.weights is not None:
            self._weights.weights.unlink()
        return path

    def _start(self) -> ProcessHandle:
        self._started += 1
        device = torch.cuda.current_device() if torch.cuda.is_available() else None
        log = self.folder / f"worker-{self._started}.log"
        setup = WorkerSetup(self._make_state, torch.get_num_threads(), device, serve)
        return self._launch(log, setup)

    def _launch(self, log: Path, setup: WorkerSetup) -> ProcessHandle:
        """Start a process; a subclass may start another kind of worker."""
        return ProcessHandle(log, setup)

    def close(self) -> None:
        """End the workers, and remove weights and logs."""
        super().close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _wait(self) -> list[ProcessHandle]:
        readable = wait([worker.connection for worker in self.workers])
        return [worker for worker in self.workers if worker.connection in readable]


class WorkerSetup(NamedTuple):
    """What a worker process starts with."""

    make_state: bytes
    """A `MakeWorkerState`, pickled."""
    threads: int
    """Threads of torch, as many as the learner has: sums of several threads may differ in their last digits."""
    device: int | None
    """The CUDA device of the process that learns, if there are any."""
    serve: Serve
    """What the worker does with its state: a function of a module."""


class ProcessHandle(WorkerHandle):
    """A worker process as its pool sees it; `log` takes all of its output."""

    def __init__(self, log: Path, setup: WorkerSetup) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would share torch's threads
        self.connection, far_end = context.Pipe()
        self.process = context.Process(target=run_worker, args=(log, far_end), daemon=True)
        self.process.start()
        far_end.close()  # so that the connection ends with the worker
        # Not an argument of the process: `start` would block for ever if the process dies before it reads a large
        # one. Here a dead process is an OSError, and `receive` reports it.
        with suppress(OSError):
            self.connection.send(setup)
        self.log = log
        self._ready = False
        self._sent = True  # nothing is sent before the worker reads: a large request would block this process

    def assign(self, index: int, request: RolloutRequest) -> None:
        """Let the worker sample a batch, once it is ready."""
        self.index, self.request, self._sent = index, request, False
        self._send()

    def _send(self) -> None:
        if self._ready and not self._sent:
            with suppress(OSError):  # it has just died, which `receive` reports
                self.connection.send(self.request)
            self._sent = True

    def receive(self) -> WorkerReady | BatchResult | BatchFailure | None:
        """Return the newest message of the worker; `None` if it has died."""
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
        """Wait for the end of the process, kill it if that takes long, and return its cause."""
        self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        code = self.process.exitcode
        assert code is not None, self.process
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def log_tail(self) -> str:
        """Return the last lines of the worker's log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        empty = "(it is empty: the reason why the worker could not start is printed further up)"
        return "\n".join(text.splitlines()[-LAST_LINES:]) or empty


def run_worker(log: Path, connection: Connection) -> None:
    """Receive a `WorkerSetup`, then sample the batches of requests, until the other end closes or the parent ends.

    Args:
        log: File that takes all output.
        connection: The worker's end of the connection to the pool.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to workers too
    _end_with_parent(log.parent)
    _redirect_output(log)
    try:
        setup: WorkerSetup = connection.recv()
        torch.set_num_threads(setup.threads)
        if setup.device:  # 0 is torch's own choice, and costs memory only if it is used
            torch.cuda.set_device(setup.device)
        state: WorkerState = pickle.loads(setup.make_state)()
        connection.send(WorkerReady())
        setup.serve(connection, state)
    except (EOFError, BrokenPipeError):  # the pool was closed
        return
    except Exception as error:
        traceback.print_exc()
        connection.send(BatchFailure.from_error(error))


def serve(connection: Connection, state: WorkerState) -> None:
    """Sample the batches of requests, each with the weights that it names, until the other end closes."""
    loaded: Path | None = None
    while True:
        batch, weights = connection.recv()
        if weights.weights is not None and weights.weights != loaded:
            states = torch.load(weights.weights, map_location="cpu", weights_only=True)
            load_states(state.team, states)
            loaded = weights.weights
        connection.send(sample_batch(batch, state, weights.servers))


def _end_with_parent(folder: Path) -> None:
    """End this process as soon as its parent has ended, even during a batch, and remove the folder of the pool."""
    parent = parent_process()
    assert parent is not None, "a worker is started by multiprocessing"

    def watch() -> None:
        wait([parent.sentinel])
        shutil.rmtree(folder, ignore_errors=True)
        # `sys.exit` would end this thread alone.
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _redirect_output(log: Path) -> None:
    """Write all output of this process, and the stack of a crash, to a file."""
    # By descriptors, as native libraries and child processes do not write through `sys.stdout`.
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(target, stream)
    os.close(target)
    faulthandler.enable()  # a crash of native code leaves its stack in the log
