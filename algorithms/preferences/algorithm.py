"""The declaration of an algorithm that learns from pairs of joint samples."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from llm_decpomdp.algorithms.learning.advantages import GroupValues, Returns
from llm_decpomdp.algorithms.learning.algorithm import Algorithm
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions, UpdateOptions
from llm_decpomdp.algorithms.preferences.options import CURRENT, PreferenceOptions
from llm_decpomdp.algorithms.preferences.pairs import MAX_JOINT_SAMPLES
from llm_decpomdp.algorithms.rollouts.checks import joint_samples
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.options import names, refuse_changes
from llm_decpomdp.policy import Team

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.critics.states import Features
    from llm_decpomdp.algorithms.learning.base_learner import BaseLearner

RATIOS = "the loss of a pair has no ratios to the policy that sampled"
ADVANTAGES = "pairs have no advantages"
MEANINGLESS = {
    "loss": "the loss of a pair sums over tokens",
    "normalize_advantages": ADVANTAGES,
    "own_weight": ADVANTAGES,
    "reward_parts": ADVANTAGES,
    "objective.name": RATIOS,
    "objective.clip_range": RATIOS,
    "objective.clip_range_high": RATIOS,
    "importance_sampling.mode": RATIOS,
    "kl.coefficient": "dpo_beta keeps the team close to the reference",
    "truncation.mode": "a pair compares completions as they were sampled, by the reward alone",
    "joint_aggregation.name": "pairs compare joint samples, each with its own return",
    "negative_advantage_weight": ADVANTAGES,
    "step_advantage_weight": ADVANTAGES,
    "tokens_per_pass": "a pass has the answers to one prompt that pairs compare",
}
"""Options of updates without effect on pairs, and why. Those that depend on one of them are refused with it."""


@dataclass(eq=False)
class PreferenceAlgorithm(Algorithm):
    """An algorithm that makes the better of two joint samples more likely, and the other less likely."""

    is_on_policy: ClassVar[bool] = False
    supports_sharding: ClassVar[bool] = False
    supports_stored_pairs: ClassVar[bool] = True

    Options = PreferenceOptions

    @property
    def pair_options(self) -> PreferenceOptions:
        """The options of pairs."""
        assert isinstance(self.options, PreferenceOptions)
        return self.options

    def advantages(
        self, groups: Sequence[GroupValues], options: LearnerOptions
    ) -> list[dict[str, Returns]]:
        """Raise a `TypeError`: pairs of joint samples have no advantages."""
        raise TypeError(
            "pairs of joint samples are compared with each other, so there are no advantages: learn with "
            "PreferenceLearner"
        )

    def make_learner(
        self, team: Team, options: LearnerOptions, seed: int = 0, features: Features | None = None
    ) -> BaseLearner:
        """Build the learner, with the arguments and errors of `Algorithm.make_learner`; no features are read."""
        # Imported here, because looking up an algorithm must not load torch.
        from llm_decpomdp.algorithms.preferences.learner import PreferenceLearner

        return PreferenceLearner(team, self, options, seed)

    def needs_reference(self, options: UpdateOptions) -> bool:
        """Return True: the loss of a pair compares each policy with its reference."""
        return True

    def can_recompute_advantages(self, options: UpdateOptions) -> bool:
        """Return False: pairs have no advantages."""
        return False

    def check(self, agents: Collection[str], options: UpdateOptions) -> None:
        """Raise a `ValueError` if it cannot train with these options; any team will do."""
        if self.pair_options.opponent != CURRENT and self.pair_options.pair_kind == "single":
            raise ValueError(
                f"pair_kind=single needs equal partners in both samples, and opponent="
                f"{self.pair_options.opponent} has other partners: set pair_kind=joint, or opponent=current"
            )
        for name, reason in MEANINGLESS.items():
            refuse_changes(options, [name], f"{self.name}, as {reason}")
        pairs = f"{self.name}, which compares returns in pairs"
        refuse_changes(options, map("critic.{}".format, names(type(options.critic))), pairs)

    def check_rollouts(
        self,
        agents: Collection[str],
        options: UpdateOptions,
        rollouts: RolloutOptions,
        group_size: int,
    ) -> None:
        """Raise a `ValueError` if groups of such rollouts hold no pairs."""
        super().check_rollouts(agents, options, rollouts, group_size)
        if rollouts.mode == "episodes":
            raise ValueError(
                f"{self.name} compares answers to the same prompts, and whole episodes share those of the first "
                "turn alone: set rollout.mode to chain or tree"
            )
        samples = joint_samples(rollouts, group_size, len(agents))
        # The joint samples of an opponent are compared in the same group.
        samples *= 1 if self.pair_options.opponent == CURRENT else 2
        if samples > MAX_JOINT_SAMPLES:
            raise ValueError(
                f"groups would have up to {samples:,} joint samples, and pairs are made of at most "
                f"{MAX_JOINT_SAMPLES:,}: lower group_size, or set joint_mode=common"
            )
        single = self.pair_options.pair_kind == "single"
        if single and rollouts.joint_mode == "aligned" and len(agents) > 1:
            raise ValueError(
                "pair_kind=single needs joint samples that differ in one agent alone, and with "
                "joint_mode=aligned all agents differ: set joint_mode=common or joint_mode=cross"
            )
