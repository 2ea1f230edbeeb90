"""Asynchronous rollouts whose answers continue under new weights (partial rollouts; PipelineRL, arXiv 2509.19128).

Before update u learns, workers are given the batches of all updates up to u + k, where k is the largest lag. New
weights are sent while they sample, and the learner only waits for the batch of its own update. So the tokens of
update u come from the weights after updates max(0, u - 1 - k) to u - 1, and each token has the log-probability of
the weights that sampled it. That is what `importance_sampling.importance_weights` compares with.

With `AsyncSource`, in comparison, one version samples a whole batch, and the learner waits for open batches before
it changes a weight.

Which version samples a token depends on time, so equal seeds give no equal bytes. A checkpoint holds no open
batches: a run that continues samples them again, with the weights of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.rollout_workers.in_flight import InFlightWorkers
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Timer
from llm_decpomdp.algorithms.training.async_rollouts import check_lag
from llm_decpomdp.algorithms.training.rollout_source import (
    RolloutSource,
    SourceWrapper,
    TrainBatch,
    UpdateRequest,
)

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.training.trainer import Trainer


class InFlightSource(SourceWrapper):
    """Rollouts of several versions of the weights.

    Args:
        source: Samples them.
        learner: Learns from them.
        lag: k, at least 1.

    Raises:
        ValueError: If the workers take no weights while they sample, if starts depend on what the last update has
            sampled, or if the learner's weights are in shards.
    """

    def __init__(self, source: RolloutSource, learner: BaseLearner, lag: int) -> None:
        super().__init__(source, "in_flight")
        check_lag(source, learner, lag)
        inner = source
        while isinstance(inner, SourceWrapper):
            inner = inner.source
        if not isinstance(getattr(inner, "worker", None), InFlightWorkers):
            raise ValueError(
                "in_flight needs worker processes that take weights while they sample: set "
                "cluster.rollout_workers with cluster.engine=local (in Python, sample with InFlightWorkers), or "
                "in_flight=false"
            )
        if learner.is_sharded:
            raise ValueError(
                "in_flight sends whole weights while workers sample, and here they are in shards: set "
                "learner.fsdp_size=1, or in_flight=false"
            )
        self.lag = lag
        self._begun = 0  # the newest update whose batch was begun

    def on_init_end(self, trainer: Trainer) -> None:
        """Keep the trainer, which knows the agents that learn and the version of their weights."""
        self._trainer = trainer

    def collect(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Return the rollouts of an update, and let workers begin with those of later ones.

        The timer adds up the seconds that were spent on the rollouts that are returned.
        """
        newest = min(request.update + self.lag, len(self.batches))
        for update in range(max(self._begun + 1, request.update), newest + 1):
            starts = self.batches[update - 1]
            self.source.prefetch(replace(request, update=update, starts=starts))
        self._begun = newest
        return self.source.collect(request, timer)

    def metrics(self, batch: TrainBatch) -> dict[str, float]:
        """Return the metrics of the other source, and those of versions."""
        trainer = self._trainer
        versions = version_metrics(batch.rollouts, trainer.learner.agents, trainer.version)
        return {**self.source.metrics(batch), **versions}

    def finish(self) -> None:
        """Do nothing: weights may change while workers sample."""

    def close(self) -> None:
        """End what the other source has started, and with it the open batches."""
        self._begun = 0
        super().close()


def version_metrics(
    rollouts: Sequence[Rollout], agents: Sequence[str], newest: int
) -> dict[str, float]:
    """Return metrics of the versions that have sampled the tokens of some agents.

    Args:
        rollouts: Their completions have versions; those without, such as of other policies, do not count.
        agents: The agents that learn.
        newest: Version of the weights that learn.

    Returns:
        `lag`, the largest distance of a token's version from the newest; `older_tokens`, the share of tokens that
        older weights than the newest have sampled; and `mixed_completions`, the share of completions with tokens
        of several versions. Empty without tokens that have versions.
    """
    written = [
        completion.versions
        for rollout in rollouts
        for group in rollout.groups
        for agent, completions in group.completions.items()
        if agent in agents
        for completion in completions
        if completion.versions
    ]
    tokens = [version for versions in written for version in versions]
    if not tokens:
        return {}
    return {
        "lag": newest - min(tokens),
        "older_tokens": sum(version < newest for version in tokens) / len(tokens),
        "mixed_completions": sum(len({*versions}) > 1 for versions in written) / len(written),
    }
