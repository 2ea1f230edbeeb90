"""A pool of worker processes that may die: the batch of a dead worker is sampled again by another."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llm_decpomdp.agents.remote.options import SamplerError, ServerLost
from llm_decpomdp.algorithms.rollout_workers.batches import RolloutBatch
from llm_decpomdp.algorithms.rollout_workers.options import RolloutWorkerError
from llm_decpomdp.algorithms.rollout_workers.rollout_worker import update_servers
from llm_decpomdp.algorithms.rollout_workers.worker_process import (
    BatchFailure,
    BatchResult,
    RolloutRequest,
    WeightUpdate,
    WorkerReady,
)
from llm_decpomdp.algorithms.rollouts.long_prompts import label
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.algorithms.rollouts.sampling import Timer, is_remote
from llm_decpomdp.policy import TrainablePolicy

if TYPE_CHECKING:
    from llm_decpomdp.agents.remote.sampler import RemoteSampler
    from llm_decpomdp.agents.remote.served_weights import ServedWeights

logger = logging.getLogger(__name__)


class WorkerHandle(ABC):
    """A worker as its pool sees it."""

    place: int | None = None
    """Place of the batch that it was given."""
    order: RolloutRequest | None = None
    """What it was given last."""
    placed = True
    """Whether it is sure to play soon what it is given."""

    @abstractmethod
    def give(self, place: int, order: RolloutRequest) -> None:
        """Let the worker play a batch, once it is ready."""

    @abstractmethod
    def receive(self) -> WorkerReady | BatchResult | BatchFailure | None:
        """Return what the worker says; `None` if it has died."""

    @abstractmethod
    def terminate(self) -> None:
        """Ask the worker to end."""

    @abstractmethod
    def end(self) -> str:
        """Wait for the end of the worker, and return its cause."""

    @abstractmethod
    def last_lines(self) -> str:
        """Return the end of what the worker has said."""

    def finish(self) -> int:
        """Note that the batch is played, and return its place."""
        assert self.place is not None, "the worker was given a batch"
        place, self.place = self.place, None
        return place


class RolloutWorkerPool(ABC):
    """Hands batches to workers, one at a time; a batch whose worker dies is played again by another.

    Where policies are sampled at servers, workers ask these themselves. Servers are looked after here: where a
    worker loses one, that is started again if it has died, the worker ends, and its batch is played by another.

    Args:
        workers: Number of workers, at least 1. They start with the first batches.
        max_retries: Most times that a batch is played again.
        samplers: Those of policies that are sampled at servers, by agent.

    Raises:
        ValueError: If there are no workers, `max_retries` is negative, or a sampler holds batches back.
    """

    def __init__(
        self,
        workers: int,
        max_retries: int = 3,
        samplers: Mapping[str, RemoteSampler] | None = None,
    ) -> None:
        if workers < 1 or max_retries < 0:
            raise ValueError(
                f"workers must be at least 1 and max_retries at least 0, got {workers} and {max_retries}"
            )
        self.number, self.max_retries, self.samplers = workers, max_retries, samplers or {}
        self._servers = list(dict.fromkeys(self.samplers.values()))  # agents may share one
        if any(sampler.options.exact for sampler in self._servers):
            raise ValueError("workers ask a server at the same time, so samplers need exact=False")
        self.workers: list[Any] = []
        """Those that have been started, each a `Hand`."""
        self._supply = WeightUpdate(None, {})
        self._begun: Sequence[RolloutBatch] = ()

    def update_weights(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Give workers and servers new weights: each worker takes them before its next batch.

        Raises:
            SamplerError: If a server does not take them, or answers by others.
        """
        update_servers(self._servers, version)
        own = {name: policy for name, policy in policies.items() if not is_remote(policy)}
        self._supply = WeightUpdate(self._store(own, version) if own else None, self._served())

    @abstractmethod
    def _store(self, policies: Mapping[str, TrainablePolicy], version: int) -> Any:
        """Put weights where workers find them, in place of older ones, and return where."""

    def _served(self) -> dict[str, ServedWeights]:
        """Return what workers sample by, by agent, from servers that are there."""
        weights = {sampler: sampler.serve() for sampler in self._servers}
        return {agent: weights[sampler] for agent, sampler in self.samplers.items()}

    def _room(self) -> int:
        """Return the largest number of workers that can be at work."""
        return self.number

    @abstractmethod
    def _start(self) -> WorkerHandle:
        """Start a worker."""

    @abstractmethod
    def _speaking(self) -> list[Any]:
        """Wait for workers that have something to say, or have died."""

    def prefetch(self, batches: Sequence[RolloutBatch]) -> None:
        """Let each worker play one of the batches, before `roll` is asked for all of them."""
        self._hire(len(batches))
        placed = [worker for worker in self.workers if worker.placed]
        for place, worker in enumerate(placed[: len(batches)]):
            worker.give(place, RolloutRequest(batches[place], self._supply))
        self._begun = batches

    def sample(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        """Play batches, as many at a time as there are workers; those that were begun go on.

        Raises:
            RolloutWorkerError: If workers have died of one batch again and again; names its starts.
        """
        try:
            results = self._roll(batches)
        except BaseException:
            self._stop()  # some are at work on batches that nobody waits for any more
            raise
        for result in results:
            for activity, seconds in result.seconds.items():
                timer.seconds[activity] = timer.seconds.get(activity, 0.0) + seconds
        return [result.rollouts for result in results]

    def _roll(self, batches: Sequence[RolloutBatch]) -> list[BatchResult]:
        assert not self._begun or list(self._begun) == list(batches), "others were begun"
        self._begun = ()
        places = {worker.place for worker in self.workers}
        waiting = deque(place for place in range(len(batches)) if place not in places)
        results: dict[int, BatchResult] = {}
        deaths: Counter[int] = Counter()
        losses: Counter[int] = Counter()
        while len(results) < len(batches):
            busy = sum(worker.place is not None for worker in self.workers)
            self._hire(busy + len(waiting))
            for worker in self.workers:
                if worker.place is None and worker.placed and waiting:
                    place = waiting.popleft()
                    worker.give(place, RolloutRequest(batches[place], self._supply))
            for worker in self._speaking():
                message = worker.receive()
                if isinstance(message, BatchFailure):
                    if worker.place is None or not isinstance(message.error, ServerLost):
                        raise message.error from message.cause
                    losses[worker.place] += 1
                    self._look_after(worker.order, message.error, losses[worker.place])
                    waiting.append(worker.place)
                    self.workers.remove(worker)
                    worker.terminate()  # and with it what it has asked and nobody waits for
                    worker.end()
                if isinstance(message, BatchResult):
                    results[worker.finish()] = message
                elif message is None:
                    self.workers.remove(worker)
                    how = worker.end()
                    if worker.place is not None:
                        deaths[worker.place] += 1
                        self._redo(worker, how, batches[worker.place], deaths[worker.place])
                        waiting.appendleft(worker.place)
        return [results[place] for place in range(len(batches))]

    def _look_after(self, order: RolloutRequest, error: ServerLost, losses: int) -> None:
        """See that the servers are there, unless that was done since a worker was given what it lost one with.

        Raises:
            SamplerError: If servers were lost too often with this batch.
        """
        task = _task(order.batch)
        if losses > min(sampler.options.max_restarts for sampler in self._servers):
            words = "\n".join(sampler.server.last_words() for sampler in self._servers)
            raise SamplerError(
                f"workers have lost a server that samples {losses} times as they played {task}, the last time as "
                f"{error}. Does the machine of each worker reach it? The end of its log:\n{words}"
            ) from error
        logger.warning(
            "a rollout worker has lost a server that samples (%s): %s is played again", error, task
        )
        if order.supply is self._supply:
            self._supply = WeightUpdate(self._supply.weights, self._served())

    def _redo(self, worker: WorkerHandle, how: str, batch: RolloutBatch, deaths: int) -> None:
        """Warn of a worker that has died and whose batch is played again.

        Raises:
            RolloutWorkerError: If it is one too many.
        """
        task = _task(batch)
        if deaths > self.max_retries:
            raise RolloutWorkerError(
                f"{deaths} {'worker has' if deaths == 1 else 'workers have'} died of {task}, by {how} at last. If "
                "that is SIGKILL, memory was likely short: take fewer rollout_workers or smaller batches. The "
                f"end of its log:\n{worker.last_lines()}"
            )
        logger.warning("a rollout worker has died by %s: %s is played again", how, task)

    def _hire(self, batches: int) -> None:
        """Start workers until there are enough for so many batches, or as many as can be."""
        while len(self.workers) < min(self._room(), batches):
            self.workers.append(self._start())

    def _stop(self) -> None:
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            worker.end()
        self.workers.clear()
        self._begun = ()

    def close(self) -> None:
        """End the workers and servers, and let go of the weights."""
        self._stop()
        for sampler in self._servers:
            sampler.close()
        self._supply = WeightUpdate(None, {})


def _task(batch: RolloutBatch) -> str:
    starts = ", ".join(map(label, batch.starts))
    return f"batch {batch.index} of {batch.purpose} (starts: {starts})"
