"""Dynamic sampling: starts without a learning signal are replaced by further ones (DAPO, arXiv 2503.14476).

All completions of a rollout that is solved or failed throughout have the same value: the update learns from fewer
rollouts, and its gradient is noisier. With dynamic sampling an update weighs problems by how often they have a
signal, not by how often they are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, Timer
from llm_decpomdp.algorithms.training.rollout_source import (
    RolloutSource,
    SourceWrapper,
    TrainBatch,
    UpdateRequest,
    split_into_batches,
)
from llm_decpomdp.seeding import stream


class DynamicSamplingSource(SourceWrapper):
    """Samples further problems in place of those without a learning signal.

    Args:
        source: Samples them.
        learner: Says which rollouts have a learning signal.
        problems: All problems of the run.
        rounds: Largest number of rounds of replacements.
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
        super().__init__(source, f"max_resample_rounds={rounds}")
        if not any(set(problems) - set(batch) for batch in source.batches):
            total = len(set(source.starts))
            raise ValueError(
                f"max_resample_rounds={rounds} draws problems that an update lacks, and every update has "
                f"all {total} of the run: take fewer problems an update (train_batch_size), or drop it"
            )
        self.learner, self.problems, self.rounds, self.seed = learner, problems, rounds, seed

    def collect(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Sample the starts of a request, and in rounds others in place of those without a learning signal."""
        batch = self.source.collect(request, timer)
        # The former name of resampling, as another one would give runs other problems.
        rng = stream(self.seed, "refill", request.update)
        number = len(split_into_batches(request.starts, request.size))
        # Every rollout batch draws from its own problems, so that no process waits for another.
        fresh = processes.shard(draw_replacements(self.problems, request.starts, rng, number))
        current = [list(rollouts) for rollouts in batch.shard]
        further: list[list[Rollout]] = [[] for _ in current]
        for round_number in range(1, self.rounds + 1):
            silent = [
                [i for i, rollout in enumerate(rollouts) if not self._has_signal(rollout)]
                for rollouts in current
            ]
            starts = [
                list(islice(of, len(indices))) for of, indices in zip(fresh, silent, strict=True)
            ]
            if not any(starts):
                break
            again = replace(request, replacements=starts, round=round_number)
            for place, replacements in enumerate(self.source.collect(again, timer).shard):
                further[place] += replacements
                # If the problems run out, the rest stays.
                for index, rollout in zip(silent[place], replacements, strict=False):
                    current[place][index] = rollout
        return replace(batch, shard=current, rounds=[*batch.rounds, further])

    def _has_signal(self, rollout: Rollout) -> bool:
        return self.learner.has_learning_signal(*self.training_view([rollout]))

    def metrics(self, batch: TrainBatch) -> dict[str, float]:
        """Count the further starts, and the completions of all agents in them."""
        further = batch.rollouts[len(batch.rollouts) - batch.num_resampled :]
        groups = [group for rollout in further for group in rollout.groups]
        completions = sum(len(of) for group in groups for of in group.completions.values())
        counts = {"refilled_starts": len(further), "refilled_completions": completions}
        return {**counts, **self.source.metrics(batch)}


def draw_replacements(
    problems: Sequence[Start], batch: Sequence[Start], rng: np.random.Generator, number: int
) -> list[Iterator[Start]]:
    """Draw the problems that a batch lacks, each once, for each of its rollout batches."""
    order = (problems[index] for index in rng.permutation(len(problems)))
    fresh = [start for start in order if start not in batch]
    return [iter(fresh[index::number]) for index in range(number)]
