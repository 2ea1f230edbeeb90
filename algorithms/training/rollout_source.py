"""Where the rollouts of an update come from: they are played, or were stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from typing_extensions import Protocol

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.rewards.scorer import RewardModelScorer
from llm_decpomdp.algorithms.rewards.scores import by_score
from llm_decpomdp.algorithms.rollout_workers.rollout_worker import (
    UpdateBatch,
    WeightSync,
    gather_to_rank0,
    split_into_batches,
)
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.sampling import Timer
from llm_decpomdp.algorithms.training import metrics
from llm_decpomdp.algorithms.training.curriculum import Curriculum
from llm_decpomdp.algorithms.training.dynamic_sampling import draw_replacements, refill
from llm_decpomdp.algorithms.training.opponents import Comparator
from llm_decpomdp.algorithms.training.trainer_options import TrainerOptions
from llm_decpomdp.seeding import stream


class Batch(NamedTuple):
    """The rollouts of an update."""

    lessons: list[Rollout]
    """Those that this process learns from, as its learner is given them."""
    rollouts: list[Rollout]
    """All of the update, of all processes, as they were played; the first process alone has those that were."""
    metrics: dict[str, float]
    """What was special about them, in the first process."""
    shares: Sequence[Sequence[int]] = ()
    """Places in `rollouts` of the lessons of each process, if they were played; in the first one."""


class Source(Protocol):
    """Gives the rollouts of each update."""

    def batch(self, update: int, timer: Timer) -> Batch:
        """Return the rollouts of an update, counted from 1; the clock is given the seconds of each activity."""
        ...

    def complete(self) -> None:
        """Play to the end what was begun for later updates: the weights are about to change."""
        ...


class Stored:
    """Rollouts that were stored.

    Args:
        updates: Those of each update.
    """

    def __init__(self, updates: Sequence[Sequence[Rollout]]) -> None:
        self.updates = updates

    def batch(self, update: int, timer: Timer) -> Batch:
        """Return the rollouts of an update, counted from 1."""
        rollouts = list(self.updates[update - 1])
        return Batch(processes.shard(rollouts), rollouts, {})

    def complete(self) -> None:
        """Do nothing: there is nothing to play."""


class Played:
    """Rollouts that a rollout worker plays, in batches with random streams of their own.

    Args:
        rollout_worker: Plays them.
        options: How to sample.
        batches: Starts of each update.
        problems: Starts that `refill` draws from.
        learner: Says which rollouts teach nothing, and whether it needs views.
        judge: Gives scores, by which the learner learns, if there is one.
        comparator: Plays beside the team, if pairs are made with what it says.
        curriculum: Draws the problems of each update in place of those of `batches`, as many, if there is one.
    """

    def __init__(
        self,
        rollout_worker: WeightSync,
        options: TrainerOptions,
        batches: Sequence[Sequence[Start]],
        problems: Sequence[Start],
        learner: BaseLearner,
        judge: RewardModelScorer | None,
        comparator: Comparator | None = None,
        curriculum: Curriculum | None = None,
    ) -> None:
        self.rollout_worker = rollout_worker
        self.options = options
        self.batches = batches
        self.problems = problems
        self.learner = learner
        self.judge = judge
        self.comparator = comparator
        self.curriculum = curriculum

    def batch(self, update: int, timer: Timer) -> Batch:
        """Play the rollouts of an update, counted from 1, and those in place of what teaches nothing."""
        options, starts = self.options, self.batches[update - 1]
        size, row = options.starts_per_bundle, dict[str, float]()
        if self.curriculum:
            starts, row = self.curriculum.draw(update, len(starts))
        rollout_batches = split_into_batches(starts, size)

        def play(number: int, parts: Sequence[Sequence[Start]]) -> list[list[Rollout]]:
            return self._play(update, number, parts, timer)

        def has_learning_signal(rollout: Rollout) -> bool:
            return self.learner.has_learning_signal(*self.rewarded([rollout]))

        rolled = play(0, processes.shard(rollout_batches))
        rounds = [rolled]
        if options.refill:
            rng = stream(options.seed, "refill", update)
            fresh = draw_replacements(self.problems, starts, rng, len(rollout_batches))
            mine = processes.shard(fresh)
            rolled, extra = refill(rolled, options.refill, mine, has_learning_signal, play)
            rounds.append(extra)
        lessons = [rollout for of_bundle in rolled for rollout in of_bundle]
        played = [_collected(part, lessons, size) for part in rounds]
        rollouts = [rollout for part in played for rollout, _, _ in part]
        if options.refill:
            row |= metrics.refill_metrics([rollout for rollout, _, _ in played[1]])
        if self.curriculum:
            self.curriculum.observe(rollouts)
        if self.judge and processes.rank() == 0:
            row |= metrics.score_metrics(rollouts)
        if self.comparator:
            rivals = [rollout.comparator for rollout in rollouts if rollout.comparator is not None]
            row["comparator_tokens"] = metrics.count_tokens(rivals)
        shares = _shares([lesson for part in played for _, *lesson in part])
        return Batch(self.rewarded(lessons), rollouts, row, shares)

    def prefetch(self, update: int) -> None:
        """Let the rollout worker begin with an update, counted from 1, whose `batch` is asked for next."""
        starts = self.batches[update - 1]
        parts = processes.shard(split_into_batches(starts, self.options.starts_per_bundle))
        rollout_batches = self._bundles(update, 0, parts)
        self.rollout_worker.prefetch(
            [rollout_batch for rollout_batch in rollout_batches if rollout_batch.starts]
        )

    def complete(self) -> None:
        """Do nothing: whatever is played is asked for."""

    def _bundles(
        self, update: int, number: int, parts: Sequence[Sequence[Start]]
    ) -> list[UpdateBatch]:
        """Return a round of the bundles of this process, of which some may be empty."""
        options = self.options
        return [
            UpdateBatch(
                seed=options.seed,
                index=processes.rank() + place * processes.world_size(),
                starts=tuple(starts),
                update=update,
                options=options,
                group_size=options.group_size,
                views=self.learner.critic is not None,
                round=number,
            )
            for place, starts in enumerate(parts)
        ]

    def _play(
        self, update: int, number: int, parts: Sequence[Sequence[Start]], timer: Timer
    ) -> list[list[Rollout]]:
        """Play a round of the bundles of this process."""
        rollout_batches = self._bundles(update, number, parts)
        rolled = self.rollout_worker.sample(
            [rollout_batch for rollout_batch in rollout_batches if rollout_batch.starts], timer
        )
        if self.comparator:
            going = (rollout_batch for rollout_batch in rollout_batches if rollout_batch.starts)
            rolled = [
                self.comparator.beside(rollout_batch, rollouts, timer)
                for rollout_batch, rollouts in zip(going, rolled, strict=True)
            ]
        if self.judge:
            with timer("judging"):
                rolled = [self.judge.judged(rollouts) for rollouts in rolled]
        of_bundle = iter(rolled)
        return [
            next(of_bundle) if rollout_batch.starts else [] for rollout_batch in rollout_batches
        ]

    def rewarded(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Return rollouts as the learner is given them."""
        return [by_score(rollout) for rollout in rollouts] if self.judge else list(rollouts)


def _collected(
    rolled: Sequence[Sequence[Rollout]], lessons: Sequence[Rollout], size: int | None
) -> list[tuple[Rollout, int, int | None]]:
    """Collect the rollouts of all processes in the first, each with its process and its place in its lessons."""
    places, rank = {id(lesson): place for place, lesson in enumerate(lessons)}, processes.rank()
    of_bundles = [
        [(rollout, rank, places.get(id(rollout))) for rollout in rollouts] for rollouts in rolled
    ]
    return gather_to_rank0(of_bundles, size)


def _shares(lessons: Sequence[Sequence[int | None]]) -> list[list[int]]:
    """Return the places of the lessons of each process, among what was played.

    Args:
        lessons: Of all that was played, the process and the place in its lessons, if it is one.
    """
    places: list[dict[int, int]] = [{} for _ in range(processes.world_size())]
    for place, (rank, lesson) in enumerate(lessons):
        if lesson is not None:
            places[rank or 0][lesson] = place
    return [[of_one[lesson] for lesson in sorted(of_one)] for of_one in places]
