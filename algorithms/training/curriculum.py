"""Curriculum: training problems are drawn by how often the team passes them.

Where p is the share of episodes that solve a problem, passing has the variance p (1 - p): a problem that is always
passed, or never, teaches nothing. An update's problems are drawn without replacement, in proportion to p (1 - p),
among those with p in `BAND`; where too few are left there, the nearest of the others follow.

p is the mean of a Beta posterior whose prior is a quarter of a pass and of a failure: what was never played has
1/2, and is likely to be drawn, and one visit whose G episodes all passed, or all failed, leaves the band if G > 2.
Measurements fade with every update, as the team changes: what was left out drifts back towards 1/2, and returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, Timer
from llm_decpomdp.algorithms.training.rollout_source import (
    RolloutSource,
    SourceWrapper,
    TrainBatch,
    UpdateRequest,
)
from llm_decpomdp.algorithms.training.trainer import Trainer
from llm_decpomdp.seeding import stream

BAND = (0.1, 0.9)  # pass rates, both included, of problems that are drawn
PRIOR = 0.25  # passes, and failures, that every problem has had before any
FADING = 0.98  # factor of all measurements in each update: they halve in 34

NO_SOLVED = (
    "the environment does not tell which problems are solved (there is no `solved` in its infos)"
)


class CurriculumSource(SourceWrapper):
    """Draws the problems of each update, and measures pass rates by what was sampled.

    Args:
        source: Samples them.
        problems: Starts of all training problems.
        group_size: Episodes that a visit counts as (G).
        seed: Decides what is drawn, together with the update and all rates before.

    Raises:
        ValueError: If there is no choice among problems.
    """

    state_key = "curriculum"

    def __init__(
        self, source: RolloutSource, problems: Sequence[Start], group_size: int, seed: int
    ) -> None:
        super().__init__(source, "curriculum=pass_rate")
        self.needs_last_update = "curriculum=pass_rate"
        if len(problems) <= max(map(len, source.batches)):
            raise ValueError(
                f"{self.needs_last_update} chooses among problems, and an update has all {len(problems)} of the "
                "run: take fewer problems an update (train_batch_size), or drop it"
            )
        self.problems, self.group_size, self.seed = list(problems), group_size, seed
        self._row: dict[str, float] = {}
        self._visits: list[tuple[int, float]] = []
        self._places = {start: place for place, start in enumerate(self.problems)}
        self._passed = np.zeros(len(self.problems))
        self._played = np.zeros(len(self.problems))

    @property
    def rates(self) -> NDArray[np.float64]:
        """The estimated pass rate of each problem, above 0 and below 1."""
        return (PRIOR + self._passed) / (2 * PRIOR + self._played)

    def collect(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Sample as many problems as were asked for, others than these."""
        starts, self._row = self.draw(request.update, len(request.starts))
        return self.source.collect(replace(request, starts=starts), timer)

    def metrics(self, batch: TrainBatch) -> dict[str, float]:
        """Return what is known of the draw, and the metrics of the other source."""
        self._visits = self.visits(batch.rollouts)
        return {**self._row, **self.source.metrics(batch)}

    def draw(self, update: int, number: int) -> tuple[list[Start], dict[str, float]]:
        """Draw the problems of an update, counted from 1; return them, and the metrics of the draw."""
        rates = self.rates
        variance = rates * (1 - rates)
        inside = (rates >= BAND[0]) & (rates <= BAND[1])
        # Gumbel-top-k: the largest sums of log weight and Gumbel noise are a weighted draw without replacement.
        noise = stream(self.seed, "curriculum", update).gumbel(size=len(rates))
        # `lexsort` sorts by its last key first: all within the band come before those outside.
        order = np.lexsort((-np.where(inside, np.log(variance) + noise, variance), ~inside))
        places = order[:number]
        row = {
            "curriculum/pass_rate": float(rates[places].mean()),
            "curriculum/in_band": float(inside.mean()),
            "curriculum/unplayed": float((self._played[places] == 0).mean()),
        }
        return [self.problems[place] for place in places], row

    def on_optimizer_step(self, trainer: Trainer, batch: TrainBatch, row: dict[str, Any]) -> None:
        """Measure by all rollouts of the update."""
        self.observe(self._visits)

    def visits(self, rollouts: Sequence[Rollout]) -> list[tuple[int, float]]:
        """Return the position of each rollout's problem, and its pass rate; raises the errors of `pass_rate`."""
        return [(self._places[rollout.start], pass_rate(rollout)) for rollout in rollouts]

    def observe(self, visits: Sequence[tuple[int, float]]) -> None:
        """Add the pass rates of an update, by the positions of the problems; those of the first process count."""
        # Only the first process has all rollouts, and all processes draw alike.
        visits = processes.broadcast(visits)
        # The team changes, so old measurements count less and less.
        self._passed *= FADING
        self._played *= FADING
        for place, rate in visits:
            self._passed[place] += rate * self.group_size
            self._played[place] += self.group_size

    def state_dict(self) -> dict[str, Any]:
        """Return the measurements."""
        return {"passed": self._passed.tolist(), "played": self._played.tolist()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value.

        Raises:
            ValueError: If it is of another number of problems.
        """
        if len(state["passed"]) != len(self.problems):
            raise ValueError(
                f"the curriculum was of {len(state['passed'])} problems, and there are {len(self.problems)}: "
                "restore the data, or begin a new run"
            )
        self._passed, self._played = np.array(state["passed"]), np.array(state["played"])


def pass_rate(rollout: Rollout) -> float:
    """Estimate how often an episode from a rollout's start ends with `solved`.

    A joint sample whose episode is over counts as it ended, and one that goes on as the group that follows it. In
    a chain one alone is handed on, and stands for all of its group that could have been: the estimate has no bias
    where that one is drawn at random.

    Raises:
        ValueError: If the infos have no `solved`.
    """
    following: dict[tuple[int, int], float] = {}
    rate = 0.0
    for index, group in reversed([*enumerate(rollout.groups)]):  # each comes after its parent
        known = [following[index, j] for j in range(len(group.joint)) if (index, j) in following]
        rates = []
        for j, info in enumerate(group.infos):
            if not known or group.ended[j]:
                if "solved" not in info:
                    raise ValueError(f"{NO_SOLVED}: a curriculum by pass rate cannot be had")
                rates.append(float(bool(info["solved"])))
            else:
                rates.append(following.get((index, j), fmean(known)))
        rate = fmean(rates)
        if group.parent is not None:
            following[group.parent] = rate
    return rate
