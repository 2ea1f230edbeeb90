"""Updates and evaluations whose rollout batches a rollout worker samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from llm_decpomdp.algorithms.rollout_workers.base import RolloutBatch, RolloutWorker, WorkerState
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.play import play_episodes, seed_streams, seed_update
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, TextEnv, Timer
from llm_decpomdp.algorithms.rollouts.rollout_options import TrainerOptions
from llm_decpomdp.algorithms.training.rollout_source import (
    NumberedBatch,
    SampledSource,
    UpdateRequest,
)
from llm_decpomdp.algorithms.training.trainer import PeriodicEvaluation, Trainer


@dataclass(frozen=True)
class UpdateBatch(RolloutBatch):
    """A part of an update."""

    update: int
    """Counted from 1."""
    options: TrainerOptions
    """How rollouts are collected."""
    views: bool
    """Whether a critic will read the states."""
    round: int = 0
    """Round of dynamic sampling that added the starts; 0 for the update's own starts."""

    @property
    def purpose(self) -> str:
        """Name of the update or evaluation, for messages."""
        return f"update {self.update}"

    def play(self, state: WorkerState, timer: Timer) -> list[Rollout]:
        """Sample a rollout from each start, as `SampledSource` does."""
        env, team, options, index = state.env, state.team, self.options, self.index
        state.rng = seed_update(env, team, options, self.update, index, self.round, state.rng)
        return collect_rollouts(
            env,
            team,
            self.starts,
            options,
            group_size=options.group_size,
            rng=state.rng,
            timer=timer,
            views=self.views,
        )


@dataclass(frozen=True)
class EvaluationBatch(RolloutBatch):
    """A part of an evaluation."""

    seed: int
    """The run's seed."""
    at_a_time: int
    """Episodes that are played at the same time."""

    @property
    def purpose(self) -> str:
        """Name of the update or evaluation, for messages."""
        return "an evaluation"

    def play(self, state: WorkerState, timer: Timer) -> list[Rollout]:
        """Play an episode from each start, as `PeriodicEvaluation` does."""
        env, team = state.eval_env, state.team
        seed_streams(env, team, self.seed, "evaluation", index=self.index)
        return play_episodes(env, team, self.starts, self.at_a_time, timer)


@dataclass(eq=False, repr=False)
class WorkerSource(SampledSource):
    """Rollouts that a rollout worker samples, with the current weights; other arguments as in `SampledSource`."""

    worker: RolloutWorker = field(kw_only=True)

    def __post_init__(self) -> None:
        self.in_workers = self.worker.in_workers
        self._trainer: Trainer | None = None
        super().__post_init__()

    def _sample(
        self, request: UpdateRequest, batches: Sequence[NumberedBatch], timer: Timer
    ) -> list[list[Rollout]]:
        self._synchronize()
        rollouts = iter(self.worker.run_batches(self._update_batches(request), timer))
        return [next(rollouts) if starts else [] for _, starts in batches]

    def prefetch(self, request: UpdateRequest) -> None:
        """Let the worker begin with a request."""
        self._synchronize()
        self.worker.prefetch(self._update_batches(request))

    def _synchronize(self) -> None:
        # Without a trainer there is no warm start, and the learner alone counts versions.
        version = self.learner.updates if self._trainer is None else self._trainer.version
        self.worker.synchronize(self.learner.policies, version)

    def _update_batches(self, request: UpdateRequest) -> list[UpdateBatch]:
        views, options = self.learner.critic is not None, self.options
        return [
            UpdateBatch(index, starts, request.update, options, views, request.round)
            for index, starts in request.shard
            if starts
        ]

    def on_init_end(self, trainer: Trainer) -> None:
        """Keep the trainer, which knows the version of the weights."""
        self._trainer = trainer

    def on_resume(self, trainer: Trainer) -> None:
        """Give the worker the weights of the checkpoint."""
        self.worker.reload()

    def close(self) -> None:
        """End what the worker has started."""
        self.worker.close()


class WorkerEvaluation(PeriodicEvaluation):
    """Evaluations whose episodes a rollout worker plays; other arguments as in `PeriodicEvaluation`."""

    def __init__(self, worker: RolloutWorker, env: TextEnv, starts: Sequence[Start]) -> None:
        super().__init__(env, starts)
        self.worker, self.in_workers = worker, worker.in_workers

    def _play(
        self, trainer: Trainer, batches: Sequence[NumberedBatch], timer: Timer
    ) -> list[list[Rollout]]:
        self.worker.synchronize(trainer.learner.policies, trainer.version)
        seed, size = trainer.options.seed, self.at_a_time
        parts = [EvaluationBatch(index, starts, seed, size) for index, starts in batches]
        return self.worker.run_batches(parts, timer)

    def on_resume(self, trainer: Trainer) -> None:
        """Give the worker the weights of the checkpoint."""
        self.worker.reload()

    def on_train_end(self, trainer: Trainer) -> None:
        """End what the worker has started."""
        self.worker.close()
