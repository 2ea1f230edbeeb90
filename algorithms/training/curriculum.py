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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.training.rejection_sampling import pass_rate
from llm_decpomdp.seeding import stream

BAND = (0.1, 0.9)
"""Pass rates, both included, of problems that are drawn."""

PRIOR = 0.25
"""Passes, and failures, that every problem has had before any."""

FADING = 0.98
"""Factor of all measurements in each update: they halve in 34."""


class Curriculum:
    """Draws the problems of each update, and measures pass rates by what was played.

    Args:
        problems: Starts of all training problems.
        group_size: Episodes that a visit counts as (G).
        seed: Decides what is drawn, together with the update and all rates before.
    """

    def __init__(self, problems: Sequence[Start], group_size: int, seed: int) -> None:
        self.problems = list(problems)
        self.group_size = group_size
        self.seed = seed
        self._places = {start: place for place, start in enumerate(self.problems)}
        self._passed = np.zeros(len(self.problems))
        self._played = np.zeros(len(self.problems))

    @property
    def rates(self) -> NDArray[np.float64]:
        """The estimated pass rate of each problem, above 0 and below 1."""
        return (PRIOR + self._passed) / (2 * PRIOR + self._played)

    def draw(self, update: int, number: int) -> tuple[list[Start], dict[str, float]]:
        """Draw the problems of an update, counted from 1.

        Args:
            update: The update.
            number: How many to draw, at most as many as there are.

        Returns:
            The problems, and what `metrics.jsonl` tells of the draw.
        """
        rates = self.rates
        variance = rates * (1 - rates)
        inside = (rates >= BAND[0]) & (rates <= BAND[1])
        # The largest sums of log weight and Gumbel noise: weighted, without replacement.
        noise = stream(self.seed, "curriculum", update).gumbel(size=len(rates))
        order = np.lexsort((-np.where(inside, np.log(variance) + noise, variance), ~inside))
        places = order[:number]
        row = {
            "curriculum/pass_rate": float(rates[places].mean()),
            "curriculum/in_band": float(inside.mean()),
            "curriculum/unplayed": float((self._played[places] == 0).mean()),
        }
        return [self.problems[place] for place in places], row

    def observe(self, rollouts: Sequence[Rollout]) -> None:
        """Measure by all rollouts of an update, of which the first process alone has those of all.

        Raises:
            ValueError: If the environment does not tell which problems are solved.
        """
        visits = processes.compute_on_first(
            lambda: [(self._places[rollout.start], pass_rate(rollout)) for rollout in rollouts]
        )
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


def check_curriculum(
    curriculum: str | None,
    lag: int,
    problems: Sequence[Start],
    batches: Sequence[Sequence[Start]],
    stored: bool,
) -> None:
    """Raise a `ValueError` if there is nothing to draw from, or not in time."""
    if curriculum is None:
        return
    if stored:
        raise ValueError(
            f"curriculum={curriculum} means nothing with stored rollouts, as nothing is played: drop it"
        )
    if lag:
        raise ValueError(
            f"curriculum={curriculum} draws by what the last update has played, which with lag={lag} was sampled "
            "before it was known: set lag=0, or drop it"
        )
    if len(problems) <= max(map(len, batches)):
        raise ValueError(
            f"curriculum={curriculum} chooses among problems, and an update has all {len(problems)} of the run: "
            "take fewer problems an update (prompts_per_update), or drop it"
        )
