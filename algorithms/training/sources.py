"""Where the rollouts of an update come from: they are played, or were stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from typing_extensions import Protocol

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.rewards.judge import Judge
from llm_decpomdp.algorithms.rewards.scores import by_score
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.plans import roll_out
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.sampling import Stopwatch
from llm_decpomdp.algorithms.training import metrics
from llm_decpomdp.algorithms.training.comparator import Comparator
from llm_decpomdp.algorithms.training.refill import further_starts, refill
from llm_decpomdp.algorithms.training.streams import seed_policies
from llm_decpomdp.algorithms.training.trainer_options import TrainerOptions
from llm_decpomdp.policy import Team
from llm_decpomdp.seeding import stream


class Batch(NamedTuple):
    """The rollouts of an update."""

    lessons: list[Rollout]
    """Those that this process learns from, as its learner is given them."""
    rollouts: list[Rollout]
    """All of the update, of all processes, as they were played."""
    metrics: dict[str, float]
    """What was special about them."""


class Source(Protocol):
    """Gives the rollouts of each update."""

    def batch(self, update: int, clock: Stopwatch) -> Batch:
        """Return the rollouts of an update, counted from 1; the clock is given the seconds of each activity."""
        ...


class Stored:
    """Rollouts that were stored.

    Args:
        updates: Those of each update.
    """

    def __init__(self, updates: Sequence[Sequence[Rollout]]) -> None:
        self.updates = updates

    def batch(self, update: int, clock: Stopwatch) -> Batch:
        """Return the rollouts of an update, counted from 1."""
        rollouts = list(self.updates[update - 1])
        return Batch(processes.shard(rollouts), rollouts, {})


class Played:
    """Rollouts that the team plays, with random streams that are named by the update.

    Args:
        env: The environment.
        team: A policy for each agent.
        options: How to sample.
        batches: Starts of each update.
        problems: Starts that `refill` draws from.
        learner: Says which rollouts teach nothing, and whether it needs views.
        judge: Gives scores, by which the learner learns, if there is one.
        comparator: Plays beside the team, if pairs are made with what it says.
    """

    def __init__(
        self,
        env: TextEnv,
        team: Team,
        options: TrainerOptions,
        batches: Sequence[Sequence[Start]],
        problems: Sequence[Start],
        learner: BaseLearner,
        judge: Judge | None,
        comparator: Comparator | None = None,
    ) -> None:
        self.env = env
        self.team = team
        self.options = options
        self.batches = batches
        self.problems = problems
        self.learner = learner
        self.judge = judge
        self.comparator = comparator

    def batch(self, update: int, clock: Stopwatch) -> Batch:
        """Play the rollouts of an update, counted from 1, and those in place of what teaches nothing."""
        options, starts = self.options, self.batches[update - 1]
        seed_policies(self.team, options.seed, "update", update)
        rng = stream(options.seed, "handoff", update, processes.rank())
        if self.comparator:
            self.comparator.begin(update)

        def play(starts: Sequence[Start]) -> list[Rollout]:
            rollouts = roll_out(
                *(self.env, self.team, starts, options),
                group_size=options.group_size,
                rng=rng,
                stopwatch=clock,
                views=self.learner.critic is not None,
            )
            if self.comparator:
                rollouts = self.comparator.beside(rollouts, clock)
            if self.judge is None:
                return rollouts
            with clock("judging"):
                return self.judge.judged(rollouts)

        def teaches(rollout: Rollout) -> bool:
            return self.learner.teaches(*self._rewarded([rollout]))

        part = play(processes.shard(starts))
        rollouts, row = processes.gather(part), {}
        if options.refill:
            fresh = further_starts(self.problems, starts, stream(options.seed, "refill", update))
            part, extra = refill(part, options.refill, fresh, teaches, play)
            further = processes.gather(extra)
            rollouts, row = rollouts + further, metrics.refill_metrics(further)
        if self.judge:
            row |= metrics.score_metrics(rollouts)
        if self.comparator:
            rivals = [rollout.comparator for rollout in rollouts if rollout.comparator is not None]
            row["comparator_tokens"] = metrics.count_tokens(rivals)
        return Batch(self._rewarded(part), rollouts, row)

    def _rewarded(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Return rollouts as the learner is given them."""
        return [by_score(rollout) for rollout in rollouts] if self.judge else list(rollouts)
