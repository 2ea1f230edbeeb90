"""Dynamic sampling: starts whose rollouts teach nothing are replaced by further ones (DAPO, arXiv 2503.14476).

All completions of a rollout that is solved or failed throughout are worth the same: the update has less to learn
from, and its gradient more noise. With dynamic sampling an update weighs problems by how often they teach
something, not by how often they are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.rollout_workers.rollout_worker import split_into_batches
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.sampling import Timer
from llm_decpomdp.algorithms.training.rollout_source import (
    RolloutSource,
    SourceWrapper,
    TrainBatch,
    UpdateRequest,
)
from llm_decpomdp.seeding import stream


class DynamicSamplingSource(SourceWrapper):
    """Samples further problems in place of those that teach nothing.

    Args:
        source: Samples them.
        learner: Says which rollouts teach something.
        problems: Those of the run.
        rounds: Most times that what teaches nothing is replaced.
        seed: Decides what is drawn, together with the update.

    Raises:
        ValueError: If every update has all problems.
    """

    def __init__(
        self,
        source: RolloutSource,
        learner: BaseLearner,
        problems: Sequence[Start],
        rounds: int,
        seed: int,
    ) -> None:
        super().__init__(source, f"refill={rounds}")
        if not any(set(problems) - set(batch) for batch in source.batches):
            total = len(set(source.starts))
            raise ValueError(
                f"refill={rounds} draws problems that an update lacks, and every update has all {total} of the "
                "run: take fewer problems an update (prompts_per_update), or drop it"
            )
        self.learner, self.problems, self.rounds, self.seed = learner, problems, rounds, seed

    def sample(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Sample the starts of a request, and others in place of those that teach nothing."""

        def sample_round(number: int, parts: Sequence[Sequence[Start]]) -> list[list[Rollout]]:
            return self.source.sample(replace(request, parts=parts, round=number), timer).parts

        def has_learning_signal(rollout: Rollout) -> bool:
            return self.learner.has_learning_signal(*self.training_view([rollout]))

        batch = self.source.sample(request, timer)
        rng = stream(self.seed, "refill", request.update)
        num_bundles = len(split_into_batches(request.starts, request.size))
        # Every bundle draws from its own share of the problems, so that no process waits for another.
        fresh = draw_replacements(self.problems, request.starts, rng, num_bundles)
        parts, further = resample(
            batch.parts, self.rounds, processes.shard(fresh), has_learning_signal, sample_round
        )
        return replace(batch, parts=parts, rounds=[*batch.rounds, further])

    def metrics(self, batch: TrainBatch) -> dict[str, float]:
        """Count the further starts, and the completions of all agents in them."""
        further = batch.rollouts[len(batch.rollouts) - batch.num_resampled :]
        completions = [
            len(of_agent)
            for rollout in further
            for group in rollout.groups
            for of_agent in group.completions.values()
        ]
        counts = {"refilled_starts": len(further), "refilled_completions": sum(completions)}
        return {**counts, **self.source.metrics(batch)}


def draw_replacements(
    problems: Sequence[Start], batch: Sequence[Start], rng: np.random.Generator, shares: int
) -> list[Iterator[Start]]:
    """Draw the problems that a batch lacks, each once; every bundle has a share of its own of them.

    Args:
        problems: Those of the run.
        batch: The starts of the update, of all processes.
        rng: The same in all processes.
        shares: Number of bundles, of all processes.
    """
    order = (problems[index] for index in rng.permutation(len(problems)))
    fresh = [start for start in order if start not in batch]
    return [iter(fresh[index::shares]) for index in range(shares)]


def resample(
    parts: Sequence[Sequence[Rollout]],
    rounds: int,
    fresh: Sequence[Iterator[Start]],
    has_learning_signal: Callable[[Rollout], bool],
    sample_round: Callable[[int, Sequence[Sequence[Start]]], Sequence[Sequence[Rollout]]],
) -> tuple[list[list[Rollout]], list[list[Rollout]]]:
    """Put further rollouts in the place of those that teach nothing; no process waits for another.

    Args:
        parts: The rollouts of each bundle of this process.
        rounds: Most times that what teaches nothing is replaced.
        fresh: Further starts for each bundle; where they end, what is left stays.
        has_learning_signal: Whether a rollout teaches something.
        sample_round: Samples a round, counted from 1: a rollout from each start of each bundle.

    Returns:
        Of each bundle the rollouts to learn from, as many as before, and all that were sampled further.
    """
    current = [list(rollouts) for rollouts in parts]
    further: list[list[Rollout]] = [[] for _ in parts]
    for number in range(1, rounds + 1):
        silent = [
            [index for index, rollout in enumerate(rollouts) if not has_learning_signal(rollout)]
            for rollouts in current
        ]
        starts = [
            list(islice(source, len(indices)))
            for source, indices in zip(fresh, silent, strict=True)
        ]
        if not any(starts):
            break
        for rollout_batch, replacements in enumerate(sample_round(number, starts)):
            further[rollout_batch] += replacements
            for index, rollout in zip(silent[rollout_batch], replacements, strict=False):
                current[rollout_batch][index] = rollout
    return current, further
