"""The declaration of a learning algorithm."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from llm_decpomdp.algorithms.critics.options import DEFAULT_INPUT, OwnCritic
from llm_decpomdp.algorithms.learning.baselines import Baseline, maximum, none
from llm_decpomdp.algorithms.learning.learner_options import UpdateOptions
from llm_decpomdp.algorithms.learning.preference_options import refuse_preferences
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.policy import Team
from llm_decpomdp.testing.rules import short

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.critics.states import Features
    from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
    from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions

OTHERS = {"none": "magrpo", "own": "iac", "joint": "maac"}
"""An algorithm with a critic of each scope."""

SAMPLE_RETURNS = np.array([[0.0, 1.0, 3.0, 0.5], [2.0, 2.0, 2.0, 2.0]])
"""Returns of two groups, which a baseline is tried on when an algorithm is declared."""

MAX_COUNTERFACTUALS = 4096
"""Most texts of a group that a critic of answers reads; more is refused as a likely mistake."""

Chosen = TypeVar("Chosen", bound=UpdateOptions)


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
    critic: OwnCritic | None = None
    """The critic that it cannot do without, if there is one."""
    min_group_size: int = 2
    """Least number of completions of a group: 1 where nothing is compared within it."""
    decay: float | None = None
    """Weight of the past in a running baseline of each role (`running.py`), which is subtracted before
    `baseline`; `None` for none."""

    is_on_policy: ClassVar[bool] = True
    """Whether the loss assumes that the current weights have sampled the completions."""
    supports_sharding: ClassVar[bool] = True
    """Whether all processes make equally many passes of a policy in an update, as models in shards need it."""
    supports_stored_pairs: ClassVar[bool] = False
    """Whether it can learn from stored preference pairs (`pairs_source`)."""

    def __post_init__(self) -> None:
        """Raise a `ValueError` unless the baseline gives finite numbers in the shape of the returns."""
        for returns in (SAMPLE_RETURNS, SAMPLE_RETURNS[0]):
            found = self.baseline(returns.copy())
            if (
                not isinstance(found, np.ndarray)
                or found.shape != returns.shape
                or not np.isfinite(found).all()
            ):
                name = getattr(self.baseline, "__name__", repr(self.baseline))
                raise ValueError(
                    f"the baseline {name!r} of {self.name!r} must return an array of finite numbers in the shape "
                    f"of the returns, and gave {short(found)} for returns of shape {returns.shape}: compute over "
                    "the last axis with keepdims=True, and np.broadcast_to(..., returns.shape)"
                )

    def make_learner(
        self,
        team: Team,
        options: LearnerOptions,
        seed: int = 0,
        features: Features | None = None,
    ) -> BaseLearner:
        """Build the learner that trains a team by this algorithm.

        Args:
            team: Agent to policy.
            options: Loss, optimizer and schedule.
            seed: Seed of random choices of the learner.
            features: Features of the texts that a critic reads; by default those of the policies' own models.

        Raises:
            TypeError: If a policy lacks something that the options need.
            ValueError: If the algorithm cannot train the team with these options.
        """
        # Imported here, because looking up an algorithm must not load torch.
        from llm_decpomdp.algorithms.learning.learner import Learner

        return Learner(team, self, options, features)

    def needs_reference(self, options: UpdateOptions) -> bool:
        """Check whether training keeps a copy of the initial weights, or the base model of an adapter, in use."""
        return bool(options.kl_coefficient) or self.completed(options).critic != "none"

    def can_recompute_advantages(self, options: UpdateOptions) -> bool:
        """Check whether advantages depend on one rollout alone: not on a critic or on earlier updates."""
        return self.decay is None and self.completed(options).critic == "none"

    def completed(self, options: Chosen) -> Chosen:
        """Return the options with the critic of this algorithm where they leave it open.

        Raises:
            ValueError: If they name another one, or something of a critic without there being one.
        """
        own = self.critic
        scope = options.critic or (own.scope if own else "none")
        if own and scope != own.scope:
            raise ValueError(
                f"{self.name} has critic={own.scope}, and critic={scope} is set: drop it, or use "
                f"{OTHERS[scope]}"
            )
        text = options.critic_input or (own.input if own else DEFAULT_INPUT)
        return replace(options, critic=scope, critic_input=text)

    def check(self, agents: Collection[str], options: UpdateOptions) -> None:
        """Raise a `ValueError` if it cannot train a team of these agents, or not with these options."""
        self.completed(options)
        refuse_preferences(self.name, options)
        if (
            self.critic
            and self.critic.role == "counterfactual"
            and options.critic_trunk != "frozen"
        ):
            raise ValueError(
                f"{self.name} learns what answers are worth from differences within groups, of features that stay "
                f"as they are: set critic_trunk=frozen, got {options.critic_trunk}"
            )
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
            what = "compares returns with nothing" if self.critic is None else "centres no group"
            raise ValueError(
                f"{self.name} {what}, so normalize_advantages makes advantages of hundreds where they are nearly "
                "equal: set max_grad_norm, or normalize_advantages=false"
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
            options: Normalisation.
            rollouts: Plan and joint samples.
            group_size: G.
        """
        if group_size < self.min_group_size:
            raise ValueError(
                f"{self.name} compares completions of a group, so num_generations (group_size) must be at least "
                f"{self.min_group_size}, got {group_size}: raise it, or use iac, maac, rae or mareinforce"
            )
        if group_size == 1 and options.normalize_advantages:
            raise ValueError(
                "normalize_advantages divides by the standard deviation of a group, and one completion has none: "
                "set num_generations (group_size) to 2 or more, or normalize_advantages=false"
            )
        if self.decay is not None and rollouts.refill:
            raise ValueError(
                f"{self.name} compares with what was earned before, so that no start teaches nothing: set "
                f"refill=0, got {rollouts.refill}"
            )
        if self.critic is None or self.critic.role != "counterfactual":
            return
        if rollouts.joint_mode != "aligned":
            raise ValueError(
                f"{self.name} asks its critic about an agent's other completions, and joint_mode="
                f"{rollouts.joint_mode} plays them: set joint_mode=aligned, or use magrpo"
            )
        texts = group_size * (1 + len(agents) * (group_size - 1))
        if texts > MAX_COUNTERFACTUALS:
            raise ValueError(
                f"{self.name} with num_generations (group_size) of {group_size} and {len(agents)} agents has the "
                f"critic read {texts:,} texts for each group; more than {MAX_COUNTERFACTUALS:,} is refused: use "
                "fewer completions"
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
