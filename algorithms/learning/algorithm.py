"""The declaration of a learning algorithm."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from llm_decpomdp.algorithms.learning.baselines import Baseline, maximum, none
from llm_decpomdp.algorithms.learning.learner_options import UpdateOptions
from llm_decpomdp.algorithms.learning.preference_options import refuse_preferences
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions


@dataclass(frozen=True)
class Algorithm:
    """Declaration of a learning algorithm: a baseline, and for whom it is meant."""

    name: str
    baseline: Baseline
    """Subtracted from the returns of a group, of shape (..., G)."""
    multi_agent: bool = True
    """True if it is meant for teams of more than one agent."""
    description: str = ""
    """A sentence for readers of a report."""

    def check(self, agents: Collection[str], options: UpdateOptions) -> None:
        """Raise a `ValueError` if it cannot train a team of these agents, or not with these options."""
        refuse_preferences(self.name, options)
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
        if self.baseline is none and options.normalize_advantages and not options.max_grad_norm:
            raise ValueError(
                f"{self.name} compares returns with nothing, so normalize_advantages makes advantages of "
                "hundreds where they are nearly equal: set max_grad_norm, or normalize_advantages=false"
            )

    def check_rollouts(
        self, agents: Collection[str], options: UpdateOptions, rollouts: RolloutOptions
    ) -> None:
        """Raise a `ValueError` if it has nothing to learn from in such rollouts; a baseline fits all."""
