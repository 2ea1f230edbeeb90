"""The protocol of rollout workers, and the one that samples in this process."""

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
    """Samples rollouts of batches of starts with the newest weights, in this process or in others."""

    def update_weights(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Take over new weights. Called before the first batch, and between a step and the next batch.

        Args:
            policies: The policies that learn, by the names of `distinct_policies`.
            version: Number of completed updates and warm start steps; it never decreases.
        """
        ...

    def prefetch(self, batches: Sequence[RolloutBatch]) -> None:
        """Optionally start these batches in the background; `sample` is called for them next."""
        ...

    def sample(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        """Sample batches, and return the rollouts of each, in the order of the batches.

        Args:
            batches: Parts of one update or evaluation.
            timer: Adds up the seconds of each activity, summed over processes that work at the same time.

        Raises:
            RolloutWorkerError: If a batch failed and its retries are used up.
        """
        ...

    def close(self) -> None:
        """End processes and servers that were started; `update_weights` starts them again."""
        ...


class LocalRolloutWorker:
    """Samples in this process, one batch after the other, with the policies that learn.

    Args:
        state: Environments and team.
    """

    def __init__(self, state: WorkerState) -> None:
        self.state = state

    def update_weights(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Gather sharded weights; all other weights are in this process."""
        for policy in policies.values():
            if isinstance(policy, GatheredPolicy):
                policy.gather()

    def prefetch(self, batches: Sequence[RolloutBatch]) -> None:
        """Do nothing: this process has other work."""

    def sample(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        """Sample batches, and return the rollouts of each, in the order of the batches."""
        return [batch.sample(self.state, timer) for batch in batches]

    def close(self) -> None:
        """Do nothing: no process was started."""


def update_servers(samplers: Sequence[RemoteSampler], version: int) -> None:
    """Send the current weights to the servers.

    Raises:
        SamplerError: If a server does not accept them.
    """
    # All are launched before the first is waited for, so that they load their models at the same time.
    for sampler in samplers:
        sampler.launch()
    for sampler in samplers:
        sampler.update_weights(version)


class WeightSync:
    """Sends new weights to a rollout worker before it samples.

    Args:
        rollout_worker: The rollout worker.
        policies: The policies that learn, by the names of `distinct_policies`.
        version: Returns the version of their weights.
    """

    def __init__(
        self,
        rollout_worker: RolloutWorker,
        policies: Mapping[str, TrainablePolicy],
        version: Callable[[], int],
    ) -> None:
        self.rollout_worker, self.policies, self.version = rollout_worker, policies, version
        self._sent: int | None = None  # the version that the rollout worker has

    def prefetch(self, batches: Sequence[RolloutBatch]) -> None:
        """Optionally start these batches in the background, with the current weights."""
        self._sync()
        self.rollout_worker.prefetch(batches)

    def sample(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        """Sample batches with the current weights; raises the errors of the rollout worker."""
        self._sync()
        return self.rollout_worker.sample(batches, timer)

    def _sync(self) -> None:
        version = self.version()
        if version != self._sent:
            self.rollout_worker.update_weights(self.policies, version)
            self._sent = version

    def reload(self) -> None:
        """Send the weights again before the next batch, because they changed without a new version."""
        self._sent = None

    def close(self) -> None:
        """Close the rollout worker."""
        self.reload()
        self.rollout_worker.close()


def check_rollout_worker(
    rollout_worker: RolloutWorker | None, size: int | None, team: Team, starts: Iterable[Start]
) -> None:
    """Check that the batches of a run can be sampled in any order, by any process.

    Args:
        rollout_worker: Samples them, if it was given.
        size: The option `starts_per_bundle`.
        team: A policy for each agent.
        starts: All starts of the run.

    Raises:
        ValueError: If other processes would sample a whole update each, if a policy continues from its earlier
            completions, or if a start leaves the choice to the environment's running generator.
    """
    if size is None:
        if not isinstance(rollout_worker, LocalRolloutWorker | None):
            raise ValueError(
                "rollout workers share the batches of an update, and without starts_per_bundle an update is one "
                "batch: set it, such as to a fraction of an update's starts"
            )
        return
    for name, policy in distinct_policies(team).items():
        if isinstance(policy, Stateful) and not isinstance(policy, Seedable):
            raise ValueError(
                f"starts_per_bundle={size} samples batches in any order, and the policy of {name}, a "
                f"{type(policy).__name__}, continues from its earlier completions: drop starts_per_bundle, or "
                "give the policy a method `seed` that restarts it"
            )
    if Start() in starts:
        raise ValueError(
            f"starts_per_bundle={size} samples batches in any order, and a start with neither seed nor task_id "
            "is the environment's next random choice: give it a seed or a task_id, or drop starts_per_bundle"
        )
