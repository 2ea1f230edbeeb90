"""The rollouts of updates, from sources that wrap each other, and the episodes of evaluations.

`SampledSource` samples the starts of an update, and each wrapper adds one thing: opponents (`opponents.py`),
scores of a reward model (`algorithms/rewards/scorer.py`), dynamic sampling (`dynamic_sampling.py`), a curriculum
(`curriculum.py`) or a fixed lag (`async_rollouts.py`). `StoredSource` samples nothing.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.rollout_workers.rollout_worker import (
    EvaluationBatch,
    UpdateBatch,
    WeightSync,
    check_rollout_worker,
    gather_to_rank0,
    split_into_batches,
)
from llm_decpomdp.algorithms.rollouts.cost import RunCost, evaluation_cost, run_cost
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.sampling import Timer, require_short
from llm_decpomdp.algorithms.training import metrics
from llm_decpomdp.algorithms.training.callbacks import TrainerCallback, defer_signals
from llm_decpomdp.algorithms.training.trainer_options import TrainerOptions
from llm_decpomdp.policy import Team

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.training.trainer import Trainer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class UpdateRequest:
    """Starts of an update, each of which is sampled once."""

    update: int
    """Counted from 1."""
    starts: Sequence[Start]
    """The starts of all processes."""
    shard: Sequence[Sequence[Start]]
    """The starts of this process, by rollout batch; a rollout batch may be empty."""
    size: int | None = None
    """Largest number of starts of a rollout batch; `None` for one rollout batch of each process."""
    round: int = 0
    """Round of dynamic sampling; 0 for the starts that an update begins with."""

    def rollout_batches(self, options: TrainerOptions, views: bool = False) -> list[UpdateBatch]:
        """Return the rollout batches of this process that are not empty; with `views` for a critic."""
        return [
            UpdateBatch(
                seed=options.seed,
                # The index among the batches of all processes: it names the random streams.
                index=processes.rank() + place * processes.world_size(),
                starts=tuple(starts),
                update=self.update,
                options=options,
                group_size=options.group_size,
                views=views,
                round=self.round,
            )
            for place, starts in enumerate(self.shard)
            if starts
        ]


def make_request(update: int, starts: Sequence[Start], size: int | None) -> UpdateRequest:
    """Split the starts of an update into rollout batches of at most `size`, and these between the processes."""
    return UpdateRequest(update, starts, processes.shard(split_into_batches(starts, size)), size)


@dataclass
class TrainBatch:
    """The rollouts of an update."""

    shard: list[list[Rollout]]
    """The rollouts that this process learns from, by rollout batch."""
    rounds: list[list[list[Rollout]]] = field(default_factory=list)
    """Everything that this process has sampled, by round and rollout batch, until `gather` collects it."""
    rollouts: list[Rollout] = field(default_factory=list)
    """Everything that all processes have sampled, in the first process: the first round, then later rounds."""
    num_resampled: int = 0
    """Number of the rollouts of later rounds, in the first process."""
    shards: Sequence[Sequence[int]] = ()
    """Positions in `rollouts` of what each process learns from, in the first process."""
    metrics: dict[str, float] = field(default_factory=dict)
    """What a source has measured while it sampled."""

    @property
    def train_rollouts(self) -> list[Rollout]:
        """The rollouts that this process learns from."""
        return list(chain.from_iterable(self.shard))

    def gather(self, size: int | None) -> None:
        """Collect what all processes have sampled in the first one; all processes call this once."""
        if not self.rounds:  # stored, or collected before
            return
        rank = processes.rank()
        places = {id(rollout): place for place, rollout in enumerate(self.train_rollouts)}
        collected = [
            gather_to_rank0(
                [[(rollout, rank, places.get(id(rollout))) for rollout in of] for of in sampled],
                size,
            )
            for sampled in self.rounds
        ]
        everything = list(chain.from_iterable(collected))
        self.rollouts = [rollout for rollout, _, _ in everything]
        self.num_resampled = sum(map(len, collected[1:]))
        shards: list[dict[int, int]] = [{} for _ in range(processes.world_size())]
        for position, (_, process, place) in enumerate(everything):
            if place is not None:
                shards[process][place] = position
        self.shards = [[shard[place] for place in sorted(shard)] for shard in shards]
        self.rounds = []


class RolloutSource(TrainerCallback, ABC):
    """Gives the rollouts of each update. As a callback it may keep a state and learn from each update."""

    batches: Sequence[Sequence[Start]]
    """Starts of each update of the run."""
    starts: Sequence[Start] = ()
    """All starts that may be sampled."""
    cost: RunCost | None = None
    """Upper bound of the cost of all sampling; `None` where nothing is known of it."""
    is_sampled = True
    """False if nothing is sampled, and nothing costs anything."""
    needs_last_update: str | None = None
    """The option by which starts depend on what the last update has sampled; `None` if they don't."""

    @abstractmethod
    def sample(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Return the rollouts of a request; the timer is given the seconds of each activity."""

    def metrics(self, batch: TrainBatch) -> dict[str, float]:
        """Return metrics of a batch that was gathered; the first process alone calls this."""
        return {}

    def training_view(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Return rollouts as the learner is given them."""
        return list(rollouts)

    def prefetch(self, request: UpdateRequest) -> None:
        """Optionally start sampling the next request in the background."""

    def finish(self) -> None:
        """Complete what was begun for later updates: the weights are about to change."""

    def close(self) -> None:
        """End processes and servers that were started; the next request starts them again."""


class StoredSource(RolloutSource):
    """Rollouts that were stored, one for each start of each update."""

    is_sampled = False

    def __init__(self, updates: Sequence[Sequence[Rollout]]) -> None:
        self.updates = updates
        self.batches = [[rollout.start for rollout in rollouts] for rollouts in updates]

    def sample(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Return the rollouts of an update."""
        rollouts = list(self.updates[request.update - 1])
        return TrainBatch([processes.shard(rollouts)], rollouts=rollouts)


class SampledSource(RolloutSource):
    """Rollouts that workers sample with the present weights.

    Args:
        env: The environment.
        team: A policy for each agent.
        workers: Samples rollout batches.
        learner: Says whether a critic reads the states.
        options: How to sample.
        batches: Starts of each update.
        problems: Further starts that a wrapper may ask for.

    Raises:
        ValueError: If a batch is empty, a rollout would be absurdly large, rollout batches cannot be sampled in
            any order, or a first prompt is too long for its policy.
    """

    def __init__(
        self,
        env: TextEnv,
        team: Team,
        workers: WeightSync,
        learner: BaseLearner,
        options: TrainerOptions,
        batches: Sequence[Sequence[Start]],
        problems: Sequence[Start] = (),
    ) -> None:
        if not batches or not all(batches):
            raise ValueError(
                f"each update needs a batch of at least one start, got {len(batches)} batches "
                f"with {[len(batch) for batch in batches][:10]} starts"
            )
        self.env, self.team, self.workers, self.learner = env, team, workers, learner
        self.options, self.batches = options, batches
        self.starts = list(dict.fromkeys(chain(*batches, problems)))
        size = options.starts_per_bundle
        learner.algorithm.check_rollouts(team, learner.options, options, options.group_size)
        self.cost = run_cost(env, options, options.group_size, batches)
        check_rollout_worker(workers.rollout_worker, size, team, self.starts)
        require_short(env, team, self.starts)
        number = -(-max(map(len, batches)) // (size or 1))
        processes.warn_of_idle(number, "rollout batches" if size else "starts")

    def sample(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Sample the starts of this process."""
        sampled = iter(self.workers.sample(self._rollout_batches(request), timer))
        shard = [next(sampled) if starts else [] for starts in request.shard]
        return TrainBatch(shard, [shard])

    def prefetch(self, request: UpdateRequest) -> None:
        """Let the workers begin with a request."""
        self.workers.prefetch(self._rollout_batches(request))

    def _rollout_batches(self, request: UpdateRequest) -> list[UpdateBatch]:
        return request.rollout_batches(self.options, views=self.learner.critic is not None)

    def on_resume(self, trainer: Trainer) -> None:
        """Give the workers the weights of the checkpoint."""
        self.workers.reload()

    def close(self) -> None:
        """End what the workers have started."""
        self.workers.close()


class SourceWrapper(RolloutSource):
    """A source around another one, which it changes in one respect; `option` asks for it.

    Raises:
        ValueError: If the other one samples nothing.
    """

    def __init__(self, source: RolloutSource, option: str) -> None:
        if not source.is_sampled:
            raise ValueError(
                f"{option} means nothing with stored rollouts, as nothing is sampled: drop it"
            )
        self.source = source
        self.batches, self.starts = source.batches, source.starts
        self.cost = source.cost
        self.needs_last_update = source.needs_last_update

    def sample(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Return what the other source samples."""
        return self.source.sample(request, timer)

    def metrics(self, batch: TrainBatch) -> dict[str, float]:
        """Return the metrics of the other source."""
        return self.source.metrics(batch)

    def training_view(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Return rollouts as the other source gives them to the learner."""
        return self.source.training_view(rollouts)

    def prefetch(self, request: UpdateRequest) -> None:
        """Let the other source begin with a request."""
        self.source.prefetch(request)

    def finish(self) -> None:
        """Let the other source complete what it has begun."""
        self.source.finish()

    def close(self) -> None:
        """End what the other source has started."""
        self.source.close()


class PeriodicEvaluation(TrainerCallback):
    """Plays an episode from each of some starts: before the first update, after the last, and every few updates.

    All evaluations sample with the same random numbers, so that two of them differ by the weights alone. Training
    does not depend on them.

    Args:
        env: The environment of evaluations.
        workers: Plays the episodes, with the present weights.
        starts: One for each episode, in order; with none nothing is evaluated.
    """

    def __init__(self, env: TextEnv, workers: WeightSync, starts: Sequence[Start]) -> None:
        self.env, self.workers, self.starts = env, workers, starts

    def on_init_end(self, trainer: Trainer) -> None:
        """Check that the starts fit the options and the team.

        Raises:
            ValueError: If the best policies are to be kept without evaluations, or a first prompt is too long.
        """
        options = trainer.options
        if options.keep_best and not self.starts:
            raise ValueError("keep_best compares evaluations, and there are no eval_starts")
        size = options.starts_per_bundle
        check_rollout_worker(self.workers.rollout_worker, size, trainer.team, self.starts)
        require_short(self.env, trainer.team, self.starts)
        batches = trainer.source.batches
        largest = size or -(-max(map(len, batches)) // processes.world_size())
        # As many completions at a time as in the largest update, so that both fit the same memory.
        self.at_a_time = options.group_size * largest
        self.size = None if size is None else self.at_a_time
        self.cost = evaluation_cost(self.env, len(self.starts) * options.evaluations(len(batches)))
        """Upper bound of the cost of all evaluations of the run; `None` where it isn't known."""

    def on_train_begin(self, trainer: Trainer) -> None:
        """Evaluate the team before training, or again after the update that the run continues from."""
        if processes.rank() == 0 and self.starts and self.cost:
            logger.info("evaluations: at most %s", self.cost)
        # A checkpoint is written before the evaluation of its update, whose rows resuming has dropped.
        self._evaluate_if_due(trainer)

    def on_step_end(self, trainer: Trainer) -> None:
        """Evaluate every few updates, and after the last."""
        if trainer.learner.updates:
            self._evaluate_if_due(trainer)

    def _evaluate_if_due(self, trainer: Trainer) -> None:
        if trainer.options.evaluates(trainer.learner.updates, trainer.total):
            self.evaluate(trainer)

    def evaluate(self, trainer: Trainer, kind: str = "eval") -> dict[str, Any]:
        """Play the episodes, log them, and return the metrics.

        Args:
            trainer: The trainer.
            kind: Kind of the row. Only `eval` stores episodes and can update the best checkpoint.
        """
        if not self.starts:
            return {}
        timer, indexed = Timer(), enumerate(split_into_batches(self.starts, self.size))
        rollout_batches = [
            EvaluationBatch(trainer.options.seed, index, starts, self.at_a_time)
            for index, starts in processes.shard(list(indexed))
            if starts
        ]
        episodes = gather_to_rank0(self.workers.sample(rollout_batches, timer), self.size)
        row: dict[str, Any] = processes.compute_on_first(
            lambda: {
                **metrics.evaluation_metrics(episodes),
                "tokens": metrics.count_tokens(episodes),
                **{f"{activity}_seconds": seconds for activity, seconds in timer.seconds.items()},
            }
        )
        # A signal between the row and the best policies would leave a row that no policies belong to.
        with defer_signals():
            trainer.log(kind, row, episodes if kind == "eval" else ())
            if kind == "eval":
                trainer.notify("on_evaluate", row)
        return row

    def on_resume(self, trainer: Trainer) -> None:
        """Give the workers the weights of the checkpoint."""
        self.workers.reload()

    def on_train_end(self, trainer: Trainer) -> None:
        """End what the workers have started."""
        self.workers.close()
