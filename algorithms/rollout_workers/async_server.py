"""Rollouts in this process whose policies are sampled at servers, also while the learner learns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.pool import ThreadPool

from llm_decpomdp.agents.remote.sampler import RemoteSampler
from llm_decpomdp.algorithms.rollout_workers.base import RolloutBatch, RolloutWorker, WorkerState
from llm_decpomdp.algorithms.rollout_workers.options import RolloutWorkerError
from llm_decpomdp.algorithms.rollout_workers.pool import update_servers
from llm_decpomdp.algorithms.rollouts.lanes import is_remote
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Timer
from llm_decpomdp.policy import TrainablePolicy, shared_engine

Sample = Callable[[Sequence[RolloutBatch], Timer], list[list[Rollout]]]
PATIENCE = 5.0  # seconds that the thread has to end after `close`


class AsyncServerRollouts(RolloutWorker):
    """Samples batches one after the other, with policies that learn in this process and are sampled at servers.

    Prefetched batches are sampled in a thread, which waits for the servers while the models learn. The thread
    reads no weights, because they change meanwhile: `sample` checks the servers' log-probabilities of new weights.

    `samplers` are those of the team's engines, by agent.
    """

    in_workers = False

    def __init__(self, state: WorkerState, samplers: Mapping[str, RemoteSampler]) -> None:
        self.state = state
        self.samplers = list(dict.fromkeys(samplers.values()))
        self._prefetched: PrefetchedRollouts | None = None

    def update_weights(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Send the current weights to the servers; servers that do not run are started at the same time."""
        update_servers(self.samplers, version)

    def prefetch(self, batches: Sequence[RolloutBatch]) -> None:
        """Sample batches in a thread; no weight may change and nothing else may run until `run_batches` is called.

        Does nothing if a model is sampled in this process: it would share its processors with the learner.
        """
        models = (policy for policy in self.state.team.values() if shared_engine(policy))
        if not all(map(is_remote, models)):
            return
        for sampler in self.samplers:
            sampler.proves_later = True
        self._prefetched = PrefetchedRollouts(self._play, batches)

    def run_batches(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        """Sample batches, or wait for prefetched ones; return the rollouts of each, in order."""
        if self._prefetched is None:
            return self._play(batches, timer)
        rollouts = self._prefetched.result(batches, timer)
        self._stop()
        for sampler in self.samplers:
            sampler.prove()
        return rollouts

    def _play(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        """Sample batches, one after the other."""
        return [batch.play(self.state, timer) for batch in batches]

    def close(self) -> None:
        """End the servers and the thread; `update_weights` starts the servers again."""
        super().close()
        if self._prefetched is not None:
            self._prefetched.leave()
        for sampler in self.samplers:
            sampler.close()
        self._stop()

    def _stop(self) -> None:
        if self._prefetched is not None:
            self._prefetched.wait()
        self._prefetched = None
        for sampler in self.samplers:
            sampler.proves_later = False


class PrefetchedRollouts(Timer):
    """Batches that a thread samples, and the timer of the thread.

    A thread cannot be ended from outside. So `leave` lets the timer raise an error at the next activity.
    """

    def __init__(self, sample: Sample, batches: Sequence[RolloutBatch]) -> None:
        super().__init__()
        self.batches = list(batches)
        self._left = False
        # Threads of `concurrent.futures` would let Ctrl-C wait for the server.
        self._pool = ThreadPool(1)
        self._result = self._pool.apply_async(sample, (batches, self))

    @contextmanager
    def __call__(self, activity: str) -> Iterator[None]:
        """Add the time of a `with` block to `activity`; raise an error if the rollout worker was closed."""
        if self._left:
            raise RolloutWorkerError("the rollout worker was closed while it sampled")
        with super().__call__(activity):
            yield

    def result(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        """Wait for the rollouts, and add their seconds to a timer; raises the errors of the thread."""
        assert self.batches == list(batches), "other batches were prefetched"
        rollouts = self._result.get()
        for activity, seconds in self.seconds.items():
            timer.seconds[activity] = timer.seconds.get(activity, 0.0) + seconds
        return rollouts

    def leave(self) -> None:
        """End with the next activity, by an error in the thread."""
        self._left = True

    def wait(self) -> None:
        """Wait for the thread, at most `PATIENCE` seconds."""
        self._result.wait(PATIENCE)
        self._pool.close()
