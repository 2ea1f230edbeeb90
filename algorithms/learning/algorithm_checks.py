"""Checks of an algorithm: its baseline, its team and options, and the groups that it learns from."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, cast

import numpy as np

from llm_decpomdp.algorithms.learning.advantages import Baseline
from llm_decpomdp.algorithms.learning.baselines import maximum, none
from llm_decpomdp.algorithms.learning.learner_options import UpdateOptions
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.testing.rules import short

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.learning.algorithm import Algorithm

# Returns of two groups, on which a baseline is tried when an algorithm is declared.
SAMPLE_RETURNS = np.array([[0.0, 1.0, 3.0, 0.5], [2.0, 2.0, 2.0, 2.0]])


class AlgorithmChecks:
    """The part of `Algorithm` that raises errors for what it cannot learn from."""

    name: str
    baseline: Baseline
    multi_agent: bool
    min_group_size: int

    def check_baseline(self) -> None:
        """Raise a `ValueError` unless the baseline returns finite numbers in the shape of the returns."""
        for returns in (SAMPLE_RETURNS, SAMPLE_RETURNS[0]):
            baselines = self.baseline(returns.copy())
            if (
                not isinstance(baselines, np.ndarray)
                or baselines.shape != returns.shape
                or not np.isfinite(baselines).all()
            ):
                name = getattr(self.baseline, "__name__", repr(self.baseline))
                raise ValueError(
                    f"the baseline {name!r} of {self.name!r} must return an array of finite numbers in the shape "
                    f"of the returns, and gave {short(baselines)} for shape {returns.shape}: compute over "
                    "the last axis with keepdims=True, and np.broadcast_to(..., returns.shape)"
                )

    def check(self, agents: Collection[str], options: UpdateOptions) -> None:
        """Raise a `ValueError` if it cannot train a team of these agents, or not with these options."""
        if options.reward_parts != "sum" or options.own_weight:
            from llm_decpomdp.algorithms.learning.reward_parts import check_parts

            check_parts(cast("Algorithm", self), options)
        if len(agents) > 1 and not self.multi_agent:
            raise ValueError(
                f"{self.name} trains one agent, and the team has {len(agents)}: {sorted(agents)}; use magrpo, or "
                "an environment with num_agents=1"
            )
        if self.baseline is maximum and not options.negative_advantage_weight:
            raise ValueError(
                f"no advantage of {self.name} is above 0, so negative_advantage_weight=0 leaves nothing to learn "
                "from: raise it"
            )
        # Nearly equal returns have a tiny deviation: uncentered, they would be divided by it.
        if self.baseline is none and options.normalize_advantages and not options.max_grad_norm:
            raise ValueError(
                f"{self.name} does not center the returns of a group, so normalize_advantages makes advantages of "
                "hundreds if they are nearly equal: set max_grad_norm, or normalize_advantages=false"
            )

    def check_rollouts(
        self,
        agents: Collection[str],
        options: UpdateOptions,
        rollouts: RolloutOptions,
        group_size: int,
    ) -> None:
        """Raise a `ValueError` if it cannot learn from such groups.

        Args:
            agents: The agents.
            options: Options of the learner.
            rollouts: Plan and joint samples.
            group_size: G.
        """
        if group_size < self.min_group_size:
            raise ValueError(
                f"{self.name} compares completions of a group, so group_size must be at least "
                f"{self.min_group_size}, got {group_size}: raise it, or use iac, maac, rae or mareinforce"
            )
        if group_size == 1 and (options.normalizes_groups or options.reward_parts != "sum"):
            raise ValueError(
                "normalize_advantages divides by the standard deviation of a group, and one completion has none, "
                "and so does reward_parts: set group_size to 2 or more, or "
                "normalize_advantages=false"
            )
