"""Options of features of updates that are off by default: several steps, corrections, KL, truncation, partners.

The modules of the features read them. They are declared here because configurations read them without torch.
`check_credit` checks that rollouts have the joint samples that such options need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.option_tools import refuse_changes
from llm_decpomdp.options import Options, option

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.learning.learner_options import UpdateOptions

CLIP_RANGES = {"ppo": (0.2, 0.2), "dapo": (0.2, 0.28), "gspo": (3e-4, 4e-4), "cispo": (1.0, 4.0)}
"""Objectives, and the distances below and above 1 at which each clips ratios unless it is told: those of their
papers, and 5 = 1 + 4 for `cispo`, whose paper tells none (ScaleRL, arXiv 2510.13786). A ratio never falls by 1."""


NO_K3 = (
    "as a reward k3 has the gradient of another divergence, nearly none near the reference and in a wrong "
    "direction far from it (arXiv 2506.09477); use reward, which takes k1"
)


class ObjectiveOptions(Options):
    """The loss of several updates with one batch of rollouts."""

    switch = "name"
    former_names: ClassVar = {
        "objective": "name",
        "clip_range": "clip_range",
        "clip_range_high": "clip_range_high",
    }
    name: str = option("ppo", choices=tuple(CLIP_RANGES))
    """Loss with `num_iterations` above 1: `ppo` clips the ratio of each token, `dapo` has a larger upper range,
    `gspo` clips the ratio of a whole completion, and `cispo` clips a weight, so no token loses its gradient."""
    clip_range: float | None = option(None, gt=0, lt=1, unless=("name", "cispo"))
    """Lower clip range: ratios are clipped at 1 - value. Null means 0.2 for `ppo` and `dapo`, 0.0003 for `gspo`,
    none for `cispo`."""
    clip_range_high: float | None = option(None, gt=0)
    """Upper clip range: ratios are clipped at 1 + value. Null means the lower range for `ppo`, 0.28 for `dapo`,
    0.0004 for `gspo`, 4 for `cispo`."""

    @property
    def clip_bounds(self) -> tuple[float, float]:
        """Distances below and above 1 at which the objective clips ratios."""
        low, high = CLIP_RANGES[self.name]
        if self.clip_range is not None:
            low, high = self.clip_range, self.clip_range if self.name == "ppo" else high
        return low, high if self.clip_range_high is None else self.clip_range_high


class ImportanceSamplingOptions(Options):
    """Correction for samples whose distribution differs from that of the policy that is trained."""

    switch = "mode"
    former_names: ClassVar = {
        "correction": "mode",
        "correction_cap": "cap",
        "correction_level": "level",
    }
    mode: str = option("none", choices=("none", "truncate", "mask"))
    """Weight of each sampled token in the loss. `none` treats all samples as on-policy. Otherwise the weight is
    the ratio of the token's current probability to its probability when it was sampled. `truncate` limits the
    ratio to `cap`. `mask` replaces ratios below 1 / `cap` or above `cap` by 0. Use it if older weights or a server
    sampled the tokens (`algorithm.rollout.max_async_level`, `inference.engine=vllm`)."""
    cap: float = option(2.0, gt=1, unless=("mode", "none"))
    """Upper bound of the ratio; its inverse is the lower bound of `mask`."""
    level: str = option("token", choices=("token", "sequence"), unless=("mode", "none"))
    """Ratio of each `token` separately, or the product of the ratios of its completion (`sequence`). The product
    also corrects for earlier tokens and has a much higher variance."""


class KLOptions(Options):
    """Divergence from the reference: the weights before training, or the model without its adapter."""

    switch = "coefficient"
    former_names: ClassVar = {"kl_coefficient": "coefficient", "kl": "placement"}
    coefficient: float = option(0.0, ge=0)
    """Weight of the divergence from the reference: the weights before training, or the model without its adapter,
    even if the adapter was trained before; 0 keeps no reference."""
    placement: str = option(
        "loss",
        choices=("loss", "reward"),
        refused={"k3": NO_K3, "reward_k3": NO_K3},
        unless=("coefficient", 0),
    )
    """Place of the divergence: a separate `loss` in each step, or a part of the `reward` of the samples. With
    `num_iterations` above 1, ratios weight and clip this part like the rest of the reward. With one step both are
    the same."""


class TruncationOptions(Options):
    """Completions that hit the token limit."""

    switch = "mode"
    former_names: ClassVar = {
        "truncated": "mode",
        "truncation_penalty": "overlong_penalty",
        "overlong_tokens": "overlong_buffer_len",
    }
    mode: str = option("train", choices=("train", "mask", "penalise"))
    """Treatment of completions at the token limit: `train` like any other, `mask` (used for comparison only), or
    `penalise` (`overlong_penalty` is subtracted from their value, for the agent that wrote them)."""
    overlong_penalty: float = option(0.0, ge=0, unless=("mode", "train", "mask"))
    """Deduction of `penalise`, in the units of the reward."""
    overlong_buffer_len: int = option(0, ge=0, unless=("mode", "train", "mask"))
    """Number of tokens before the limit over which the deduction of `penalise` grows linearly from 0, also for
    completions that end there (DAPO, arXiv 2503.14476); 0 deducts only at the limit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode == "penalise" and not self.overlong_penalty:
            raise ValueError(
                "mode=penalise and an overlong_penalty above 0 need each other: set it"
            )


class AggregationOptions(Options):
    """Value of a completion that was played with several choices of its partners."""

    switch = "name"
    former_names: ClassVar = {"joint_aggregation": "name", "aggregation_quantile": "quantile"}
    name: str = option("mean", choices=("mean", "max", "quantile", "annealed"))
    """Value of a completion that was combined with several partner tuples: the `mean` of its returns, their `max`
    or a `quantile`, or `annealed` from `max` to `mean` over the run. All but `mean` are optimistic about partners
    that still learn, and select lucky samples if rewards are noisy."""
    quantile: float | None = option(None, ge=0, le=1, unless=("name", "mean", "max", "annealed"))
    """Quantile of `joint_aggregation: quantile`: 1 is `max`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name == "quantile" and self.quantile is None:
            raise ValueError("name=quantile and a quantile need each other: set it")


def check_credit(rollouts: RolloutOptions, updates: UpdateOptions) -> None:
    """Raise a `ValueError` if updates want joint samples that the rollouts do not have."""
    single = rollouts.joint_mode != "cross" and rollouts.num_partners == 1
    if single:
        remedy = (
            "set joint_mode=cross, or joint_mode=common with num_partners of 2 or more, or drop it"
        )
        single_choice = f"joint_mode={rollouts.joint_mode} and one choice of partners"
        refuse_changes(updates, ["joint_aggregation.name"], single_choice, remedy)
    if rollouts.mode != "episodes":
        remedy = "set rollout.mode=episodes, or drop it"
        refuse_changes(updates, ["step_advantage_weight"], f"rollout.mode={rollouts.mode}", remedy)
    if updates.critic.exists:
        # Imported here, because critics are optional.
        from llm_decpomdp.algorithms.critics.options import check_critic_rollouts

        check_critic_rollouts(updates, rollouts)
