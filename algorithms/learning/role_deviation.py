"""Advantages divided by a running deviation of their agent (Dr. MAS, arXiv 2602.08847)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.advantages import SMALLEST_SPREAD, GroupAdvantages


class RoleDeviation:
    """Running root mean square of each agent's advantages, for `normalize_advantages: role`.

    With the baseline `mean` that is the standard deviation of the agent's returns within their groups. The
    deviation of an update is that of the updates before, so it does not depend on the completions that it scales;
    only the first update that has a signal takes its own.
    """

    DECAY = 0.9  # weight of the updates before in the running mean square: that of about ten

    def __init__(self) -> None:
        self.squares: dict[str, float] = {}
        """Running mean square of each agent's advantages."""
        self._means: dict[str, float] = {}  # mean squares of the newest batch

    def scale(
        self, groups: Sequence[GroupAdvantages]
    ) -> tuple[list[GroupAdvantages], dict[str, float]]:
        """Divide the advantages of this process's groups by the deviation of their agent, where that is not 0.

        All processes call this. The deviation is that before this batch; of agents without one, of this batch.

        Returns:
            The groups, and the deviations as metrics.
        """
        self._means = _means(processes.gather([_sums(groups)]))
        before = {agent: square for agent, square in self.squares.items() if square}
        # In its first update an agent has no deviation from before, and takes that of the batch.
        deviations = {a: math.sqrt(square) for a, square in {**self._means, **before}.items()}
        divisors = {a: d if d > SMALLEST_SPREAD else 1.0 for a, d in deviations.items()}
        scaled = [
            replace(group, advantages={a: v / divisors[a] for a, v in group.advantages.items()})
            for group in groups
        ]
        return scaled, {f"role_deviation/{agent}": value for agent, value in deviations.items()}

    def step(self) -> None:
        """Add the newest batch to the averages."""
        for agent, square in self._means.items():
            before = self.squares.get(agent) or square
            self.squares[agent] = self.DECAY * before + (1 - self.DECAY) * square
        self._means = {}


def _sums(groups: Sequence[GroupAdvantages]) -> dict[str, tuple[float, int]]:
    """Return for each agent the sum of its squared advantages, and their number."""
    sums: dict[str, tuple[float, int]] = {}
    for group in groups:
        for agent, values in group.advantages.items():
            total, number = sums.get(agent, (0.0, 0))
            sums[agent] = total + float((values**2).sum()), number + len(values)
    return sums


def _means(summaries: Sequence[Mapping[str, tuple[float, int]]]) -> dict[str, float]:
    """Return the mean square of each agent over the summaries of all processes."""
    agents = {agent: 0 for sums in summaries for agent in sums}
    parts = {agent: [sums[agent] for sums in summaries if agent in sums] for agent in agents}
    return {
        a: sum(total for total, _ in p) / sum(number for _, number in p) for a, p in parts.items()
    }
