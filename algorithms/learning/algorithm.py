"""The base class of learning algorithms: a declaration with hooks.

A group-relative algorithm only declares a baseline, such as `magrpo.py`. Everything else is a hook with a default:
subclass `Algorithm` and override the hooks that differ (`rae.py`, `actor_critic.py`, `madpo.py`;
docs/learners.md). Importing this module loads no torch, because configurations look up algorithms before any model
is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from typing_extensions import Self

from llm_decpomdp.algorithms.learning.advantages import (
    Baseline,
    GroupAdvantages,
    GroupValues,
    Returns,
    maximum,
    none,
    subtract_baseline,
)
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions, UpdateOptions
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.options import Options as BaseOptions
from llm_decpomdp.options import replace_in
from llm_decpomdp.policy import Team, TrainablePolicy
from llm_decpomdp.testing.rules import short

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.critics.critic import Critic
    from llm_decpomdp.algorithms.critics.states import Features
    from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
    from llm_decpomdp.algorithms.learning.losses import LossInputs, LossOutputs

# Returns of two groups, on which a baseline is tried when an algorithm is declared.
SAMPLE_RETURNS = np.array([[0.0, 1.0, 3.0, 0.5], [2.0, 2.0, 2.0, 2.0]])

AnyOptions = TypeVar("AnyOptions", bound=UpdateOptions)


@dataclass(eq=False)
class Algorithm:
    """A learning algorithm. Each learner works with a copy of its own, so that runs share no state.

    Raises:
        ValueError: If the baseline does not return finite numbers in the shape of the returns.
    """

    name: str
    baseline: Baseline = none
    """Subtracted from the values of a group, of shape (..., G)."""
    multi_agent: bool = True
    """Whether it can train teams of more than one agent."""
    description: str = ""
    """A sentence for readers of a report."""
    min_group_size: int = 2
    """Smallest number of completions in a group: 1 if nothing is compared within it."""
    options: BaseOptions | None = None
    """Values of the algorithm's own options; by default those of `Options()`."""

    Options: ClassVar[type[BaseOptions] | None] = None
    """The algorithm's own options: keys of the section `algorithm` that exist with this algorithm only."""
    is_on_policy: ClassVar[bool] = True
    """Whether the loss assumes that the current weights have sampled the completions."""
    supports_sharding: ClassVar[bool] = True
    """Whether all processes make equally many passes of a policy in an update, which sharded models require."""
    critic_role: ClassVar[str] = "future"
    """Use of a critic's values, one of `ROLES` (`critics/actor_critic.py`)."""
    supports_stored_pairs: ClassVar[bool] = False
    """Whether it can learn from stored preference pairs (`preferences.source`)."""

    def __post_init__(self) -> None:
        if self.options is None and self.Options is not None:
            self.options = self.Options()
        for returns in (SAMPLE_RETURNS, SAMPLE_RETURNS[0]):
            # A copy, as a baseline of a user may change its argument.
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

    def configure(self, **values: Any) -> Self:
        """Return a copy with these values of the algorithm's own options.

        Raises:
            ValueError: If the algorithm has no such option, or a value is out of range.
        """
        if self.Options is None:
            if values:
                changes = ", ".join(f"{name}={value}" for name, value in values.items())
                raise ValueError(f"{self.name} has no options of its own, got {changes}: drop them")
            return self
        configured = deepcopy(self)
        configured.options = self.Options(**values)
        return configured

    # ------------------------------------------------------------------------------------ what it learns

    def advantages(
        self, groups: Sequence[GroupValues], options: LearnerOptions
    ) -> list[dict[str, Returns]]:
        """Compute the advantage of each completion. By default the value less the baseline.

        A completion is compared with the others of its group or, if the rollout consists of whole episodes, with
        those of all groups of its turn.

        Called for each rollout, also to check whether a rollout carries a gradient: change no state here.

        Args:
            groups: The groups of one rollout, each with start, turn, prompts, completions and values.
            options: Options of the learner.

        Returns:
            For each group the advantages by agent, in the shapes of `GroupValues.values`, (G,).
        """
        if groups[0].num_episodes is not None:
            from llm_decpomdp.algorithms.learning.episodes import compare_episodes

            return compare_episodes(groups, self.baseline, options)
        normalize = options.normalizes_groups
        return [
            {
                agent: subtract_baseline(values, self.baseline, normalize=normalize)
                for agent, values in group.values.items()
            }
            for group in groups
        ]

    def loss(self, inputs: LossInputs) -> LossOutputs:
        """Compute the loss of one agent's completions in one group. By default `losses.policy_loss`.

        Called for each step with a batch, and for each group that has an advantage other than 0. With a reference
        (`needs_reference`) it is called for all groups.
        """
        # Imported here, because looking up an algorithm must not load torch.
        from llm_decpomdp.algorithms.learning.losses import policy_loss

        return policy_loss(inputs)

    def summarize(self, groups: Sequence[GroupAdvantages]) -> list[Any]:
        """Return picklable values that `update_state` needs to know about a batch. By default none.

        With several processes, each one summarizes its own groups.
        """
        return []

    def update_state(self, summaries: Sequence[Any]) -> None:
        """Learn from a batch after its last step. By default there is no state.

        Args:
            summaries: Items of `summarize` of all processes. All processes get the same items in the same order.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the algorithm as plain values and tensors; empty if it has none."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the value of `state_dict`."""

    # -------------------------------------------------------------------------------- what it is built of

    def make_learner(
        self, team: Team, options: LearnerOptions, seed: int = 0, features: Features | None = None
    ) -> BaseLearner:
        """Build the learner that trains a team by this algorithm.

        Args:
            team: Agent to policy.
            options: Loss, optimizer and schedule.
            seed: Seed of the learner's random choices.
            features: Features of the texts that a critic reads; by default those of the policies' own models.

        Raises:
            TypeError: If a policy lacks something that the options need.
            ValueError: If the algorithm cannot train the team with these options.
        """
        from llm_decpomdp.algorithms.learning.learner import Learner

        return Learner(team, self, options, features)

    def make_critic(
        self,
        options: LearnerOptions,
        agents: Mapping[str, TrainablePolicy],
        features: Features | None,
        gather: Callable[[Sequence[Any]], list[Any]],
    ) -> Critic | None:
        """Build the critic of the options, or `None`; arguments and errors are those of `build_critic`."""
        if not options.critic.exists:
            return None
        # Imported here, because options are read before torch is loaded, and critics are optional.
        from llm_decpomdp.algorithms.critics.actor_critic import build_critic

        role, discount = self.critic_role, options.discount
        return build_critic(
            options.critic, agents, features, role=role, discount=discount, gather=gather
        )

    def needs_reference(self, options: UpdateOptions) -> bool:
        """Check whether the loss reads log-probabilities of the reference: the weights before training."""
        return options.kl.coefficient > 0

    def can_recompute_advantages(self, options: UpdateOptions) -> bool:
        """Check whether advantages depend on one rollout alone: not on a critic or on earlier updates."""
        if options.normalize_advantages == "role":  # divided by the deviation of the updates before
            return False
        return not self.complete_options(options).critic.exists

    def complete_options(self, options: AnyOptions) -> AnyOptions:
        """Return the options with the choices of this algorithm where they leave some open.

        Raises:
            ValueError: If the options contradict the algorithm.
        """
        # Without a critic its other options have no effect, and setting them is an error.
        is_open = options.critic.scope is None
        return replace_in(options, "critic", scope="none") if is_open else options

    # ------------------------------------------------------------------------------------------- checks

    def check(self, agents: Collection[str], options: UpdateOptions) -> None:
        """Raise a `ValueError` if it cannot train a team of these agents, or not with these options."""
        if options.reward_parts != "sum" or options.own_weight:
            from llm_decpomdp.algorithms.learning.reward_parts import check_parts

            check_parts(self, options)
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
        if self.baseline is none and options.normalizes_groups and not options.max_grad_norm:
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
            rollouts: Mode and joint samples.
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
