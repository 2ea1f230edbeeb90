"""Running baselines of roles: what a task has been worth to an agent so far, without a group to compare with.

A role is an agent on a turn of a task. With R the mean value of the role's completions in an update,

    b <- decay b + (1 - decay) R

and a completion's advantage is its value less b as it was before the update (role-conditioned advantage
estimation, RAE; SPIRAL, arXiv 2506.24119, where a task is a game). So b does not depend on the completions that it
is compared with, and the gradient is unbiased, also with a single completion (G = 1). It lags behind a team that
learns: after n visits a change of the mean return has reached b to 1 - decay^n.

Degenerate cases: the first value of a role begins its b. A role that is seen for the first time takes the b of its
agent and turn over all tasks; before there is one, in the first update, nothing is compared and nothing learned.
(The update's own mean would do for G > 1 alone, and contain the sample.) Starts that name neither task nor seed
are all one task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from llm_decpomdp.algorithms.learning.baselines import Returns
from llm_decpomdp.algorithms.rollouts.rollout import Start


class Role(NamedTuple):
    """An agent on a turn of a task; with no `start` of all tasks."""

    agent: str
    turn: int
    start: Start | None = None


class Visit(NamedTuple):
    """The values of an agent's completions in a group."""

    role: Role
    values: Sequence[float]


class RunningBaseline:
    """The baselines of all roles that were seen.

    Args:
        decay: Weight of what was known before an update, at least 0 and below 1; 0 keeps the last update's mean.

    Raises:
        ValueError: If it is out of its range.
    """

    def __init__(self, decay: float) -> None:
        if not 0 <= decay < 1:
            raise ValueError(
                f"the decay of a running baseline must be from 0 to below 1, got {decay}"
            )
        self.decay = decay
        self._means: dict[Role, float] = {}
        self._visits: list[Visit] = []

    def value(self, role: Role) -> float | None:
        """Return b of a role, else that of its agent and turn over all tasks; `None` before there is one."""
        return self._means.get(role, self._means.get(role._replace(start=None)))

    def differences(
        self, start: Start, turn: int, values: Mapping[str, Returns]
    ) -> dict[str, Returns]:
        """Subtract the baselines from the values of each agent's completions, (G,); all 0 where there is none."""
        return {
            agent: np.zeros_like(of)
            if (b := self.value(Role(agent, turn, start))) is None
            else of - b
            for agent, of in values.items()
        }

    def observe(self, visits: Sequence[Visit]) -> None:
        """Keep the visits of an update, those of all processes, until `learn`; no baseline changes."""
        self._visits = list(visits)

    def learn(self) -> None:
        """Move the baselines towards the means of the update that was observed, in whatever order it has them."""
        values_of: dict[Role, list[float]] = {}
        for role, values in self._visits:
            for key in (role, role._replace(start=None)):
                values_of.setdefault(key, []).extend(values)
        for role, of_role in values_of.items():
            mean = math.fsum(of_role) / len(of_role)
            before = self._means.get(role, mean)
            self._means[role] = before + (1 - self.decay) * (mean - before)
        self._visits = []

    def state_dict(self) -> dict[str, Any]:
        """Return the baselines, as plain values."""
        return {
            "means": [
                {
                    "agent": role.agent,
                    "turn": role.turn,
                    "start": role.start and [role.start.seed, role.start.task_id],
                    "mean": mean,
                }
                for role, mean in self._means.items()
            ]
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value."""
        self._visits = []
        self._means = {
            Role(row["agent"], row["turn"], row["start"] and Start(*row["start"])): row["mean"]
            for row in state["means"]
        }
