"""A pool of worker processes that may die: the batch of a dead worker is sampled again by another.

`concurrent.futures.ProcessPoolExecutor` does not suffice: the death of one process breaks the whole pool, and it
does not tell which batch killed the process. Ray's `max_restarts` and `max_task_retries` do not suffice either:
they do not report a retry, and a batch would wait for an actor that the cluster has no room for.
"""

from __future__ import annotations

import logging
import pickle
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from llm_decpomdp.agents.remote.options import SamplerError, ServerLost
from llm_decpomdp.algorithms.rollout_workers.base import RolloutBatch, RolloutWorker, WorkerState
from llm_decpomdp.algorithms.rollout_workers.options import RolloutWorkerError
from llm_decpomdp.algorithms.rollouts.checks import label
from llm_decpomdp.algorithms.rollouts.lanes import is_remote
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Timer
from llm_decpomdp.policy import Stateful, Team, TrainablePolicy, distinct_policies, shared_engine

if TYPE_CHECKING:
    from llm_decpomdp.agents.remote.client import ServedWeights
    from llm_decpomdp.agents.remote.sampler import RemoteSampler

logger = logging.getLogger(__name__)

MakeWorkerState = Callable[[], WorkerState]
"""Makes the state of a worker. It can be pickled: a function of a module, or `functools.partial` of one."""


class WeightUpdate(NamedTuple):
    """The weights to sample with."""

    weights: Any  # where workers load them, which depends on the pool; `None` without any
    servers: Mapping[str, ServedWeights]  # what sampling at a server needs, by agent
    version: int = 0  # as of `RolloutWorker.update_weights`


class RolloutRequest(NamedTuple):
    """A batch to sample, and the weights to sample with."""

    batch: RolloutBatch
    weights: WeightUpdate


class WorkerReady(NamedTuple):
    """The worker has made its state and takes requests."""


class BatchResult(NamedTuple):
    """The rollouts of a batch, and the seconds spent by activity."""

    rollouts: list[Rollout]
    seconds: dict[str, float]


class BatchFailure(NamedTuple):
    """The state could not be made, or the batch fails in every worker, or a server was lost."""

    error: BaseException
    cause: BaseException | None

    @classmethod
    def from_error(cls, error: BaseException) -> BatchFailure:
        """Return an error in a form that can be sent: its text if it cannot be pickled and read again."""
        return cls(_picklable(error), error.__cause__ and _picklable(error.__cause__))


class WorkerHandle(ABC):
    """A worker as its pool sees it."""

    index: int | None = None  # of the batch that it samples, among all batches of the pool
    request: RolloutRequest | None = None  # the newest one
    is_placed = True
    """False while a cluster has no room for it; it then gets no batch, which another worker can sample now."""

    @abstractmethod
    def assign(self, index: int, request: RolloutRequest) -> None:
        """Let the worker sample a batch, once it is ready."""

    @abstractmethod
    def receive(self) -> WorkerReady | BatchResult | BatchFailure | None:
        """Return the newest message of the worker; `None` if it has died."""

    @abstractmethod
    def terminate(self) -> None:
        """Ask the worker to end."""

    @abstractmethod
    def end(self) -> str:
        """Wait for the end of the worker, and return its cause."""

    @abstractmethod
    def log_tail(self) -> str:
        """Return the last lines of the worker's log."""

    def finish(self) -> int:
        """Mark the batch as sampled, and return its index."""
        assert self.index is not None, "the worker has a batch"
        index, self.index = self.index, None
        return index


class RolloutWorkerPool(RolloutWorker):
    """Assigns batches to workers, one at a time; the batch of a worker that dies is sampled again by another.

    If policies are sampled at servers, the workers call the servers, and this process keeps the servers alive. A
    worker that loses its server ends, a dead server is started again, and another worker samples the batch.

    Args:
        workers: Number of workers, at least 1. They start with the first batches.
        max_retries: Maximum number of times that a batch is sampled again.
        samplers: The samplers of policies that are sampled at servers, by agent.

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
            raise ValueError("workers call a server at the same time, so samplers need exact=False")
        self.workers: list[Any] = []
        """The workers that have been started, each a `WorkerHandle`."""
        self._weights = WeightUpdate(None, {})
        # All by the index of a batch among all that the pool was given.
        self._batches: dict[int, RolloutBatch] = {}  # whose rollouts were not returned yet
        self._waiting: deque[int] = deque()  # for a worker
        self._results: dict[int, BatchResult] = {}
        self._deaths: Counter[int] = Counter()
        self._losses: Counter[int] = Counter()
        self._number = 0  # of batches so far

    def update_weights(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Give workers and servers new weights; each worker loads them before its next batch."""
        update_servers(self._servers, version)
        local = {name: policy for name, policy in policies.items() if not is_remote(policy)}
        path = self._store(local, version) if local else None
        self._weights = WeightUpdate(path, self._server_weights(), version)

    @abstractmethod
    def _store(self, policies: Mapping[str, TrainablePolicy], version: int) -> Any:
        """Replace the weights that workers load, and return where they are."""

    def _server_weights(self) -> dict[str, ServedWeights]:
        """Return what workers need to sample at the servers, by agent; starts servers that have died."""
        weights = {sampler: sampler.serve() for sampler in self._servers}
        return {agent: weights[sampler] for agent, sampler in self.samplers.items()}

    def _capacity(self) -> int:
        """Return the maximum number of workers that can run."""
        return self.number

    @abstractmethod
    def _start(self) -> WorkerHandle:
        """Start a worker."""

    @abstractmethod
    def _wait(self) -> list[Any]:
        """Wait for workers that have a message, or have died."""

    def prefetch(self, batches: Sequence[RolloutBatch]) -> None:
        """Let each worker without a batch sample one of these, before `sample` is called for all of them."""
        self._waiting.extend(map(self._add, batches))
        self._assign_batches()

    def run_batches(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        """Sample batches, as many at a time as there are workers; prefetched batches continue.

        Raises:
            RolloutWorkerError: If more than `max_retries` workers died of one batch; names its starts.
        """
        try:
            results = self._sample(batches)
        except BaseException:
            self._stop()  # their results are not read any more
            raise
        for result in results:
            for activity, seconds in result.seconds.items():
                timer.seconds[activity] = timer.seconds.get(activity, 0.0) + seconds
        return [result.rollouts for result in results]

    def _sample(self, batches: Sequence[RolloutBatch]) -> list[BatchResult]:
        prefetched, indices = dict(self._batches), []
        for batch in batches:
            index = next((i for i, other in prefetched.items() if other == batch), None)
            indices.append(self._add(batch) if index is None else index)
            # Equal batches may be asked for twice, and a prefetched one is the result of one of them.
            prefetched.pop(indices[-1], None)
        begun = {*self._results, *(worker.index for worker in self.workers)}
        # Before those that were prefetched for later.
        first = [index for index in indices if index not in begun]
        self._waiting = deque([*first, *(i for i in self._waiting if i not in first)])
        self._assign_batches()
        while not all(index in self._results for index in indices):
            for worker in self._wait():
                self._receive(worker)
            # Also after the last result: batches for later are sampled while the learner learns.
            self._assign_batches()
        for index in indices:
            del self._batches[index]
        return [self._results.pop(index) for index in indices]

    def _add(self, batch: RolloutBatch) -> int:
        """Return the index of a new batch."""
        index, self._number = self._number, self._number + 1
        self._batches[index] = batch
        return index

    def _assign_batches(self) -> None:
        """Give waiting batches to workers without one."""
        busy = sum(worker.index is not None for worker in self.workers)
        self._start_workers(busy + len(self._waiting))
        for worker in self.workers:
            if worker.index is None and worker.is_placed and self._waiting:
                index = self._waiting.popleft()
                worker.assign(index, RolloutRequest(self._batches[index], self._weights))

    def _receive(self, worker: WorkerHandle) -> None:
        """Take the newest message of a worker; raises the errors of its batch."""
        message = worker.receive()
        if isinstance(message, BatchFailure):
            if worker.index is None or not isinstance(message.error, ServerLost):
                raise message.error from message.cause
            assert worker.request is not None
            self._losses[worker.index] += 1
            self._restore_servers(worker.request, message.error, self._losses[worker.index])
            # At the end of the queue: a batch that loses its server must not block the others.
            self._waiting.append(worker.index)
            self.workers.remove(worker)
            worker.terminate()  # also cancels its other requests to the server
            worker.end()
        if isinstance(message, BatchResult):
            index = worker.finish()
            self._results[index] = message
            self._deaths.pop(index, None)
            self._losses.pop(index, None)
        elif message is None:
            self.workers.remove(worker)
            cause = worker.end()
            if worker.index is not None:
                self._deaths[worker.index] += 1
                batch = self._batches[worker.index]
                self._count_death(worker, cause, batch, self._deaths[worker.index])
                # In front of those that were not begun before.
                self._waiting.appendleft(worker.index)

    def _restore_servers(self, request: RolloutRequest, error: ServerLost, losses: int) -> None:
        """Start dead servers, unless this was done since the request; raise an error after too many losses."""
        task = _describe(request.batch)
        if losses > min(sampler.options.max_restarts for sampler in self._servers):
            words = "\n".join(sampler.server.last_words() for sampler in self._servers)
            raise SamplerError(
                f"workers have lost a server that samples {losses} times as they sampled {task}, the last time "
                f"with {error}. Does the machine of each worker reach it? The end of its log:\n{words}"
            ) from error
        logger.warning(
            "a rollout worker has lost a server that samples (%s): %s is sampled again", error, task
        )
        # Only once: other workers that lost this server still have the weights from before.
        if request.weights is self._weights:
            self._weights = self._weights._replace(servers=self._server_weights())

    def _count_death(
        self, worker: WorkerHandle, cause: str, batch: RolloutBatch, deaths: int
    ) -> None:
        """Log the death of a worker whose batch is sampled again; raise an error without retries left."""
        task = _describe(batch)
        if deaths > self.max_retries:
            raise RolloutWorkerError(
                f"{deaths} {'worker has' if deaths == 1 else 'workers have'} died of {task}, the last one by "
                f"{cause}. SIGKILL mostly means that memory ran out: use fewer rollout_workers or smaller "
                f"batches. The end of its log:\n{worker.log_tail()}"
            )
        logger.warning("a rollout worker has died by %s: %s is sampled again", cause, task)

    def _start_workers(self, batches: int) -> None:
        """Start workers until there is one for each batch, or as many as can run."""
        while len(self.workers) < min(self._capacity(), batches):
            self.workers.append(self._start())

    def _stop(self) -> None:
        for worker in self.workers:  # all are asked before the first is waited for
            worker.terminate()
        for worker in self.workers:
            worker.end()
        self.workers.clear()
        for of_batches in (self._batches, self._waiting, self._results):
            of_batches.clear()
        self._deaths.clear()
        self._losses.clear()

    def close(self) -> None:
        """End the workers and servers, and drop the weights."""
        super().close()
        self._stop()
        for sampler in self._servers:
            sampler.close()
        self._weights = WeightUpdate(None, {})


def update_servers(samplers: Sequence[RemoteSampler], version: int) -> None:
    """Send the current weights to the servers; raise a `SamplerError` if one does not accept them."""
    # All are launched before the first is waited for, so that they load their models at the same time.
    for sampler in samplers:
        sampler.launch()
    for sampler in samplers:
        sampler.update_weights(version)


def sample_batch(
    batch: RolloutBatch, state: WorkerState, servers: Mapping[str, ServedWeights]
) -> BatchResult:
    """Sample a batch in a worker, some policies at servers; raises the errors of `RolloutBatch.play`."""
    for agent, weights in servers.items():
        engine: Any = shared_engine(state.team[agent])  # of `agents`, with the attribute `remote`
        engine.remote = weights
    timer = Timer()
    return BatchResult(batch.play(state, timer), timer.seconds)


def save_weights(policies: Mapping[str, Stateful], path: Path) -> None:
    """Write the states of policies, by name, for `load_states`."""
    torch.save({name: policy.state_dict() for name, policy in policies.items()}, path)


def load_states(team: Team, states: Mapping[str, Any]) -> None:
    """Give the policies of a team their states, by name."""
    policies = distinct_policies(team)
    for name, state in states.items():
        policy = policies[name]
        assert isinstance(policy, Stateful), policy
        policy.load_state_dict(state)


def _describe(batch: RolloutBatch) -> str:
    starts = ", ".join(map(label, batch.starts))
    return f"batch {batch.index} of {batch.purpose} (starts: {starts})"


def _picklable(error: BaseException) -> BaseException:
    """Return an error, or its text if it cannot be pickled and read again."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
