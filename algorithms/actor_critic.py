"""Algorithms with a critic of their own: `iac.py`, `maac.py` and `coma.py`.

The critic is that of `critics/`: what it reads and learns is set by the options in `critic`, its
use by `critic_role`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from llm_decpomdp.algorithms.learning.algorithm import Algorithm, AnyOptions
from llm_decpomdp.algorithms.learning.learner_options import UpdateOptions
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.options import replace_in

# A group of 16 completions for 16 agents already needs 3,856 texts; more is probably a typing error.
MAX_COUNTERFACTUALS = 4096  # most texts of a group that a critic of answers reads

ALTERNATIVES = {"own": "iac", "joint": "maac", "none": "magrpo"}
"""The algorithm to use for each scope of a critic."""


@dataclass(eq=False, kw_only=True)
class ActorCritic(Algorithm):
    """An algorithm whose critic values states: its value is the baseline of the returns."""

    scope: str  # `own`: one critic for each agent; `joint`: one for the team
    input: str  # text that the critic reads unless the options say otherwise

    critic_role: ClassVar[str] = "baseline"

    def complete_options(self, options: AnyOptions) -> AnyOptions:
        """Return the options with this algorithm's critic; raise a `ValueError` if they name another one."""
        scope = options.critic.scope or self.scope
        if scope != self.scope:
            raise ValueError(
                f"{self.name} has critic.scope={self.scope}, and critic.scope={scope} is set: drop it, or use "
                f"{ALTERNATIVES[scope]}"
            )
        return replace_in(options, "critic", scope=scope, input=options.critic.input or self.input)


@dataclass(eq=False, kw_only=True)
class CounterfactualActorCritic(ActorCritic):
    """An algorithm whose critic values joint answers: it is asked about an agent's other answers."""

    critic_role: ClassVar[str] = "counterfactual"

    def check(self, agents: Collection[str], options: UpdateOptions) -> None:
        """Raise a `ValueError` if it cannot train a team of these agents, or not with these options."""
        super().check(agents, options)
        if options.critic.trunk != "frozen":
            raise ValueError(
                f"{self.name} learns from differences between the features of answers, which must not change: set "
                f"critic.trunk=frozen, got {options.critic.trunk}"
            )

    def check_rollouts(
        self,
        agents: Collection[str],
        options: UpdateOptions,
        rollouts: RolloutOptions,
        group_size: int,
    ) -> None:
        """Raise a `ValueError` if it cannot learn from such groups."""
        super().check_rollouts(agents, options, rollouts, group_size)
        if rollouts.joint_mode != "aligned":
            raise ValueError(
                f"{self.name} asks its critic about an agent's other completions, and joint_mode="
                f"{rollouts.joint_mode} plays them: set joint_mode=aligned, or use magrpo"
            )
        # Each joint sample as it was played, and once for each other answer of each agent.
        texts = group_size * (1 + len(agents) * (group_size - 1))
        if texts > MAX_COUNTERFACTUALS:
            raise ValueError(
                f"{self.name} with group_size={group_size} and {len(agents)} agents has the "
                f"critic read {texts:,} texts for each group; more than {MAX_COUNTERFACTUALS:,} is refused: use "
                "fewer completions"
            )
