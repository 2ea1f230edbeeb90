"""A rollout worker in this process whose policies are sampled at servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.pool import ThreadPool

from llm_decpomdp.agents.remote.sampler import RemoteSampler
from llm_decpomdp.algorithms.rollout_workers.batches import RolloutBatch, WorkerState
from llm_decpomdp.algorithms.rollout_workers.options import RolloutWorkerError
from llm_decpomdp.algorithms.rollout_workers.rollout_worker import (
    LocalRolloutWorker,
    update_servers,
)
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.algorithms.rollouts.sampling import Timer, is_remote
from llm_decpomdp.policy import EnginePolicy, TrainablePolicy

Roll = Callable[[Sequence[RolloutBatch], Timer], list[list[Rollout]]]
"""Plays batches."""

PATIENCE = 5.0
"""Seconds that a thread has to leave what it plays, once the rollout worker is closed."""


class AsyncServerRollouts(LocalRolloutWorker):
    """Plays batches here, one after the other, by policies that learn here and are sampled at servers.

    Bundles that are begun before they are asked for are played in a thread, which waits for the servers while the
    models here learn. It reads no weights: what the servers have said by new ones is compared in `roll`.

    Args:
        state: Environments and team.
        samplers: Those of the team's engines, by agent.
    """

    def __init__(self, state: WorkerState, samplers: Mapping[str, RemoteSampler]) -> None:
        super().__init__(state)
        self.samplers = list(dict.fromkeys(samplers.values()))
        self._ahead: PrefetchedRollouts | None = None

    def update_weights(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Give the servers the present weights; those that do not run are started at the same time.

        Raises:
            SamplerError: If a server does not take them.
        """
        update_servers(self.samplers, version)

    def prefetch(self, batches: Sequence[RolloutBatch]) -> None:
        """Play batches in a thread. Until `roll` asks for them, no weight may change and nothing else be played.

        Where a model is sampled here, nothing is begun: it would share its processors with the one that learns.
        """
        engines = (p for p in self.state.team.values() if isinstance(p, EnginePolicy))
        if not all(map(is_remote, engines)):
            return
        for sampler in self.samplers:
            sampler.proves_later = True
        self._ahead = PrefetchedRollouts(super().sample, batches)

    def sample(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        """Play batches, or wait for those that were begun; return the rollouts of each, in their order.

        Raises:
            SamplerError: If a server's answers are not those of the model here, or it cannot be kept alive.
        """
        if self._ahead is None:
            return super().sample(batches, timer)
        rolled = self._ahead.result(batches, timer)
        self._stop()
        for sampler in self.samplers:
            sampler.prove()
        return rolled

    def close(self) -> None:
        """End the servers that were started, and leave what was begun; `publish` starts them again."""
        if self._ahead is not None:
            self._ahead.leave()
        for sampler in self.samplers:
            sampler.close()
        self._stop()

    def _stop(self) -> None:
        if self._ahead is not None:
            self._ahead.wait()
        self._ahead = None
        for sampler in self.samplers:
            sampler.proves_later = False


class PrefetchedRollouts(Timer):
    """Bundles that a thread plays; it is their clock, too, at whose next activity they can be left.

    Args:
        roll: Plays them.
        batches: What it plays.
    """

    def __init__(self, sample: Roll, batches: Sequence[RolloutBatch]) -> None:
        super().__init__()
        self.batches = list(batches)
        self._left = False
        self._pool = ThreadPool(1)  # a daemon: Ctrl-C waits for no server
        self._rolled = self._pool.apply_async(sample, (batches, self))

    @contextmanager
    def __call__(self, activity: str) -> Iterator[None]:
        """Add the time of a `with` block to `activity`.

        Raises:
            RolloutWorkerError: If nobody waits for it any more.
        """
        if self._left:
            raise RolloutWorkerError("the rollout worker was closed while it played")
        with super().__call__(activity):
            yield

    def result(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        """Wait for the rollouts, and add their seconds to a timer; errors as of the rollout worker."""
        assert self.batches == list(batches), "others were begun"
        rolled = self._rolled.get()
        for activity, seconds in self.seconds.items():
            timer.seconds[activity] = timer.seconds.get(activity, 0.0) + seconds
        return rolled

    def leave(self) -> None:
        """End with the next activity."""
        self._left = True

    def wait(self) -> None:
        """Wait for the thread, but not for long."""
        self._rolled.wait(PATIENCE)
        self._pool.close()
