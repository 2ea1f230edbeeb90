"""A team at its environment: the episodes of an evaluation, batch by batch or each by itself.

Models of this process sample whole batches. A team that asks a server plays many episodes at once, each by itself:
whoever waits for the server keeps no other episode waiting, and what was paid for is kept as soon as its episode
ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from multiprocessing.pool import ThreadPool
from operator import itemgetter
from threading import Event
from typing import Any

from llm_decpomdp.agents.remote.endpoint import Endpoint, EndpointError
from llm_decpomdp.algorithms.rollouts.collection import play_episodes
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.rollouts.sampling import Act, Timer, distinct_policies
from llm_decpomdp.benchmarks.evaluation.play import sample_row
from llm_decpomdp.branching import branch, branches_in_threads, seed_noise
from llm_decpomdp.policy import Seedable, Team
from llm_decpomdp.seeding import stream

ON_ERROR = ("raise", "skip")
"""Choices once a request to a server has failed for good: end the evaluation, or go on without its episode."""

Batch = tuple[int, Sequence[Start]]
"""The number of a sample, and the episodes of it that are played together."""


@dataclass(frozen=True)
class Played:
    """The outcome of a batch."""

    batch: Batch
    rows: Sequence[dict[str, Any]]
    """Those of `episodes.jsonl`; none if a request has failed."""
    seconds: dict[str, float]
    """Spent by agents and `environment`."""
    error: EndpointError | None = None


@dataclass(frozen=True)
class Player:
    """A team, its way to act, and the environment that it plays."""

    env: TextEnv
    team: Team
    act: Act
    seed: int

    @property
    def waiting(self) -> int:
        """Most episodes that may wait for a server at once; 0 of a team that asks none."""
        return max(
            (p.max_parallel for p in self.team.values() if isinstance(p, Endpoint)), default=0
        )

    def play(self, batches: Sequence[Batch]) -> Iterator[Played]:
        """Play one batch after the other; its sample and its first start decide its random numbers."""
        for number, starts in batches:
            first = starts[0]
            self._restart(number, str(first.seed if first.task_id is None else first.task_id))
            yield self._batch(self.env, (number, starts))

    def play_apart(
        self, batches: Sequence[Batch], parallel: int, skip_failed: bool
    ) -> Iterator[Played]:
        """Play batches in threads, and yield them in the order in which they end, sample by sample.

        Branches are played where they can step in threads (`branches_in_threads`); any other environment is played
        itself, one batch after the other.

        Args:
            batches: What is played, in the order of the samples.
            parallel: How many batches are played at once.
            skip_failed: Whether to yield a batch in which a request has failed, and go on; otherwise none begins
                after it, and those that have begun are played to their end.

        Raises:
            EndpointError: If a request has failed, and `skip_failed` is false.
        """
        for number, sample in groupby(batches, key=itemgetter(0)):
            self._restart(number)
            yield from self._sample(list(sample), parallel, skip_failed)

    def _sample(
        self, batches: Sequence[Batch], parallel: int, skip_failed: bool
    ) -> Iterator[Played]:
        env, stopped = self.env, Event()
        apart = branches_in_threads(env)
        failed: EndpointError | None = None

        def play(batch: Batch) -> Played | None:
            if stopped.is_set():
                return None
            outcome = self._batch(branch(env) if apart else env, batch)
            if outcome.error is not None and not skip_failed:
                stopped.set()
            return outcome

        # Threads of such a pool are daemons, so that Ctrl-C waits for no server.
        threads = min(parallel, len(batches)) if apart else 1
        with ThreadPool(threads) as pool:
            for outcome in pool.imap_unordered(play, batches):
                if outcome is not None and (outcome.error is None or skip_failed):
                    yield outcome
                elif outcome is not None:
                    failed = failed or outcome.error
        if failed is not None:
            raise failed

    def _batch(self, env: TextEnv, batch: Batch) -> Played:
        timer = Timer()
        number, starts = batch
        seed_noise(env, self.seed, "evaluation", number, *map(str, starts[:1]))
        try:
            rollouts = play_episodes(env, self.team, starts, act=self.act, timer=timer)
        except EndpointError as error:
            return Played(batch, [], _by_agent(timer), error)
        rows = [sample_row(rollout, number) for rollout in rollouts]
        return Played(batch, rows, _by_agent(timer))

    def _restart(self, *names: int | str) -> None:
        """Give every policy that samples random numbers of its own for a part of the evaluation."""
        for name, policy in distinct_policies(self.team).items():
            if isinstance(policy, Seedable):
                policy.seed(int(stream(self.seed, "evaluation", *names, name).integers(2**32)))


def _by_agent(timer: Timer) -> dict[str, float]:
    """Return the seconds of the agents, and those of steps as the `environment`'s."""
    return {"environment" if k == "stepping" else k: s for k, s in timer.seconds.items()}
