"""The declaration of a learning algorithm."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from llm_decpomdp.algorithms.learning.baselines import Baseline, maximum, none
from llm_decpomdp.algorithms.learning.learner_options import UpdateOptions


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
    decay: float | None = None
    """Weight of the past in a running baseline of each role (`running.py`), which is subtracted before
    `baseline`; `None` for none."""

    def check(self, agents: Collection[str], options: UpdateOptions) -> None:
        """Raise a `ValueError` if it cannot train a team of these agents, or not with these options."""
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
        if self.decay is not None:
            self._check_running(options)
        elif self.baseline is none and options.normalize_advantages and not options.max_grad_norm:
            raise ValueError(
                f"{self.name} compares returns with nothing, so normalize_advantages makes advantages of "
                "hundreds where they are nearly equal: set max_grad_norm, or normalize_advantages=false"
            )

    def _check_running(self, options: UpdateOptions) -> None:
        """Raise a `ValueError` if options compare the completions of a group."""
        if options.normalize_advantages:
            raise ValueError(
                f"{self.name} compares with what was earned before, and normalize_advantages divides by the "
                "deviation of a group: drop it, or use magrpo"
            )
        if options.step_advantage_weight:
            raise ValueError(
                f"{self.name} compares with what was earned before, so that step_advantage_weight="
                f"{options.step_advantage_weight} would count the same advantage twice: drop it, or use magrpo"
            )
