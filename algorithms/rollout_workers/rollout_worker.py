"""Crews play the batches of a run: in this process, in others, or on other machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from typing_extensions import Protocol

from llm_decpomdp.algorithms.rollout_workers.batches import RolloutBatch, WorkerState
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.sampling import Timer, distinct_policies
from llm_decpomdp.policy import GatheredPolicy, Seedable, Stateful, Team, TrainablePolicy

if TYPE_CHECKING:
    from llm_decpomdp.agents.remote.sampler import RemoteSampler


class RolloutWorker(Protocol):
    """Plays batches with the weights that were published last."""

    def update_weights(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Take over new weights: called before the first batch, and between a step and the next batch.

        Args:
            policies: The policies that learn, by the names of `distinct_policies`.
            version: Complete updates, and steps of a warm start before them; it only grows.
        """
        ...

    def prefetch(self, batches: Sequence[RolloutBatch]) -> None:
        """Begin with batches that `roll` is asked for next, as far as nobody has to wait for it; or do nothing."""
        ...

    def sample(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        """Play batches, and return the rollouts of each, in the order of the batches.

        Args:
            batches: Parts of one update or evaluation.
            clock: Is given the seconds of each activity, summed over all that work at the same time.

        Raises:
            RolloutWorkerError: If a batch could not be played, though it was tried again.
        """
        ...

    def close(self) -> None:
        """End what was started; a further batch needs `publish` again."""
        ...


class LocalRolloutWorker:
    """Plays batches here, one after the other, by the policies that learn themselves.

    Args:
        state: Environments and team.
    """

    def __init__(self, state: WorkerState) -> None:
        self.state = state

    def update_weights(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Gather weights that lie in shards; others are here."""
        for policy in policies.values():
            if isinstance(policy, GatheredPolicy):
                policy.gather()

    def prefetch(self, batches: Sequence[RolloutBatch]) -> None:
        """Do nothing: this process has other work."""

    def sample(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        """Play batches, and return the rollouts of each, in the order of the batches."""
        return [batch.sample(self.state, timer) for batch in batches]

    def close(self) -> None:
        """Do nothing: nothing was started."""


def update_servers(samplers: Sequence[RemoteSampler], version: int) -> None:
    """Give servers the present weights; those that do not run are started at the same time.

    Raises:
        SamplerError: If a server does not take them.
    """
    for sampler in samplers:
        sampler.launch()
    for sampler in samplers:
        sampler.update_weights(version)


class WeightSync:
    """A crew that is given new weights before it plays.

    Args:
        crew: The crew.
        policies: The policies that learn, by the names of `distinct_policies`.
        version: Tells the version of their weights.
    """

    def __init__(
        self,
        rollout_worker: RolloutWorker,
        policies: Mapping[str, TrainablePolicy],
        version: Callable[[], int],
    ) -> None:
        self.rollout_worker, self.policies, self.version = rollout_worker, policies, version
        self._newest: int | None = None  # the version that the crew has

    def prefetch(self, batches: Sequence[RolloutBatch]) -> None:
        """Begin with batches, with the present weights, before they are asked for."""
        self._supply()
        self.rollout_worker.prefetch(batches)

    def sample(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        """Play batches with the present weights; errors as of the crew."""
        self._supply()
        return self.rollout_worker.sample(batches, timer)

    def _supply(self) -> None:
        """Publish the weights unless the crew has them."""
        version = self.version()
        if version != self._newest:
            self.rollout_worker.update_weights(self.policies, version)
            self._newest = version

    def reload(self) -> None:
        """Give the crew the weights again before the next batch: they are others, by whatever version."""
        self._newest = None

    def close(self) -> None:
        """End what the crew has started."""
        self.reload()
        self.rollout_worker.close()


def check_rollout_worker(
    rollout_worker: RolloutWorker | None, size: int | None, team: Team, starts: Iterable[Start]
) -> None:
    """Check that the batches of a run can be played in any order, by any process.

    Args:
        crew: Plays them, if it was given.
        size: The option `starts_per_bundle`.
        team: A policy for each agent.
        starts: All starts of the run.

    Raises:
        ValueError: If a crew is to play whole updates, a policy goes on from what it has said before, or a start
            leaves the choice to the environment's running generator.
    """
    if size is None:
        if not isinstance(rollout_worker, LocalRolloutWorker | None):
            raise ValueError(
                "a crew shares the batches of an update, and without starts_per_bundle there is one: set it, such "
                "as to a fraction of an update's starts"
            )
        return
    for name, policy in distinct_policies(team).items():
        if isinstance(policy, Stateful) and not isinstance(policy, Seedable):
            raise ValueError(
                f"starts_per_bundle={size} plays batches in any order, and the policy of {name}, a "
                f"{type(policy).__name__}, goes on from what it said before: drop starts_per_bundle, or give the "
                "policy a method `seed` after which it begins anew"
            )
    if Start() in starts:
        raise ValueError(
            f"starts_per_bundle={size} plays batches in any order, and a start with neither seed nor task_id is "
            "what the environment draws next: give each start one of them, or drop starts_per_bundle"
        )
