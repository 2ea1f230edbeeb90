"""RAE: role-conditioned advantage estimation, with a running mean for each role (SPIRAL, arXiv 2506.24119).

Like MAGRPO (`magrpo.py`), but a completion is compared with earlier updates instead of with its group. A role is
an agent on a turn of a task. With R_g the values of its completions and b its running mean before the update:

    A_g = R_g - b        b <- 0.95 b + 0.05 mean(R)

Each role has its own running mean: a common one would credit an agent for the position that it plays in. b does
not depend on the completions that it is compared with, so the gradient is unbiased even for one completion (G =
1). It lags behind a team that learns: after n visits, a change of the mean return has reached b to 1 - 0.95^n.

Assumption: tasks come back, so that b knows them. A role that is visited for the first time takes the running mean
of its agent and turn over all tasks.

Degenerate cases: nothing is learned in the first update of a run, which only starts the running means. If all
returns equal b, nothing is learned; equal returns above or below b do move the weights. Starts without task and
seed are all one task.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from llm_decpomdp.algorithms.learning.advantages import GroupAdvantages, GroupValues, Returns
from llm_decpomdp.algorithms.learning.algorithm import Algorithm
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions, UpdateOptions
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.options import Options, option, refuse_changes


class RAEOptions(Options):
    """Options of `rae`."""

    decay: float = option(0.95, ge=0, lt=1)
    """Weight of earlier updates in the running mean of a role; 0 keeps the mean of the last update only."""


class AgentRole(NamedTuple):
    """An agent on a turn of a task; without `start`, of all tasks."""

    agent: str
    turn: int
    start: Start | None = None


@dataclass(eq=False)
class RoleConditionedAdvantage(Algorithm):
    """Compares completions with a running mean of their role."""

    min_group_size: int = 1
    means: dict[AgentRole, float] = field(default_factory=dict)
    """Running mean of each role that was visited."""

    Options = RAEOptions

    def advantages(
        self, groups: Sequence[GroupValues], options: LearnerOptions
    ) -> list[dict[str, Returns]]:
        """Subtract the running means; advantages are 0 if there is none yet."""
        compared = [
            {
                a: self._difference(AgentRole(a, group.group.turn, group.start), v)
                for a, v in group.values.items()
            }
            for group in groups
        ]
        pairs = zip(groups, compared, strict=True)
        return super().advantages(
            [replace(group, values=values) for group, values in pairs], options
        )

    def _difference(self, role: AgentRole, values: Returns) -> Returns:
        mean = self.means.get(role, self.means.get(role._replace(start=None)))
        return np.zeros_like(values) if mean is None else values - mean

    def summarize(self, groups: Sequence[GroupAdvantages]) -> list[tuple[AgentRole, list[float]]]:
        """Return the values of each role."""
        return [
            (AgentRole(agent, group.group.turn, group.start), values.tolist())
            for group in groups
            for agent, values in group.values.items()
        ]

    def update_state(self, summaries: Sequence[tuple[AgentRole, list[float]]]) -> None:
        """Move the running means towards the means of a batch."""
        assert isinstance(self.options, RAEOptions)
        values_by_role: dict[AgentRole, list[float]] = {}
        for role, values in summaries:
            for key in (role, role._replace(start=None)):
                values_by_role.setdefault(key, []).extend(values)
        for role, values in values_by_role.items():
            # An exact sum, so that the order of groups, and with it the number of processes, does not matter.
            mean = math.fsum(values) / len(values)
            before = self.means.get(role, mean)
            self.means[role] = before + (1 - self.options.decay) * (mean - before)

    def state_dict(self) -> dict[str, Any]:
        """Return the running means, as plain values."""
        rows = [
            {"agent": a, "turn": turn, "start": s and [s.seed, s.task_id], "mean": mean}
            for (a, turn, s), mean in self.means.items()
        ]
        return {"means": rows}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the value of `state_dict`."""
        self.means = {
            AgentRole(row["agent"], row["turn"], row["start"] and Start(*row["start"])): row["mean"]
            for row in state["means"]
        }

    def can_recompute_advantages(self, options: UpdateOptions) -> bool:
        """Return False: advantages depend on all earlier updates."""
        return False

    def check(self, agents: Collection[str], options: UpdateOptions) -> None:
        """Raise a `ValueError` if options compare the completions of a group."""
        if options.normalizes_groups:
            raise ValueError(
                f"{self.name} compares with earlier updates, and normalize_advantages divides by the deviation of "
                "a group: drop it, or use magrpo"
            )
        if options.step_advantage_weight:
            raise ValueError(
                f"{self.name} compares with earlier updates, so step_advantage_weight="
                f"{options.step_advantage_weight} would count the same advantage twice: drop it, or use magrpo"
            )
        super().check(agents, options)

    def check_rollouts(
        self,
        agents: Collection[str],
        options: UpdateOptions,
        rollouts: RolloutOptions,
        group_size: int,
    ) -> None:
        """Raise a `ValueError` if groups are to be sampled again because they carry no gradient."""
        super().check_rollouts(agents, options, rollouts, group_size)
        equal = f"{self.name}, where groups with equal rewards carry a gradient, too"
        refuse_changes(rollouts, ["max_resample_rounds"], equal)


RAE = RoleConditionedAdvantage(
    "rae",
    description=(
        "RAE (SPIRAL, arXiv 2506.24119): the answers of all agents are combined and rewarded; answers that earned "
        "more than the agent's running mean on this turn of this task become more likely, answers that earned "
        "less become less likely."
    ),
)
