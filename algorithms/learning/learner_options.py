"""Options of a learner's updates.

The sections of optional features come first: several steps, corrections, KL, truncation, partners. They are off by
default. The modules of the features read them. They are declared here because configurations read them without
torch.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from llm_decpomdp.algorithms.critics.options import CriticOptions
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.options import NonNegative, Options, option, refuse_changes

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
        "clip_range": "clip_range",  # it stood beside the section
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
            # One number clips both sides of PPO; the others have a bound for each side.
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


class StepOptions(Options):
    """Loss and steps of the policies (AdamW), as far as they do not depend on the run."""

    former_names: ClassVar = {"updates_per_batch": "num_iterations"}
    learning_rate: float = option(1e-5, ge=0)
    """Peak learning rate of AdamW, after the warm-up."""
    lr_schedule: str = option("constant", choices=("constant", "linear", "cosine"))
    """Decay of the learning rate after the warm-up, to 0 with the last update, or none."""
    warmup_updates: int = option(0, ge=0)
    """Updates over which the learning rate rises."""
    weight_decay: float = option(0.0, ge=0)
    """AdamW's decay of matrices; biases and norms never decay."""
    tokens_per_pass: int | None = option(None, ge=1)
    """Tokens of one forward and backward pass: prompts of a policy are computed together, each with its
    completions, up to this number. `None` makes a pass for each prompt. Gradients are equal up to rounding. Not
    with `madpo` and `learner.fsdp_size`."""
    fused_adamw: bool = False
    """Step by the fused AdamW of torch, which reads and writes each weight once: less time, and equal weights up
    to rounding."""
    max_grad_norm: float | None = option(None, gt=0)
    """Norm at which the gradient of a policy is clipped; `None` does not clip."""
    loss: str = option("sequence_sum", choices=("sequence_sum", "token_mean", "fixed_length"))
    """Reduction of the tokens' losses: `sequence_sum`, `token_mean` (the sum divided by the number of tokens of
    the completions that are compared with each other), or `fixed_length` (the sum divided by a constant, in a run
    the largest `max_new_tokens` of the trained policies)."""
    normalize_advantages: bool | str = option(False, choices=("group", "role"))
    """Divide advantages by a standard deviation: true or `group` by that of their group's returns, `role` by a
    running deviation of their agent (Dr. MAS, arXiv 2602.08847), the metric `role_deviation/<agent>`. With
    `role`, agents whose returns vary more learn as fast as others, and the gradient of each agent keeps its
    direction.

    `group` is biased: the cosine between expected and exact gradient is 0.95 (median of 20 random games; minimum
    0.64). Problems whose returns hardly differ then weigh as much as others. `magrpo` and `marloo` differ only by
    a factor, which Adam largely removes. `maremax` and `mareinforce` still differ by their shift, because nothing
    is centered again; `mareinforce` then needs `max_grad_norm`."""
    own_weight: float = option(0.0, ge=0)
    """Factor of an agent's own points (`Verdict.own`, infos `own/...`), which are added to the team's reward for
    this agent's advantages. With 0 agents learn from the team's reward alone. Evaluations never count them."""
    reward_parts: str = option("sum", choices=("sum", "normalize_then_sum"))
    """Advantages of rewards with several components: of their `sum`, or the sum of the advantages of each, divided
    by its deviation in the group (GDPO, arXiv 2601.05242). Then every component counts, however few points it
    gives. This is biased like `normalize_advantages`, and changes what is optimal: components are weighed by the
    inverse of their deviations. The paper also divides by the deviation of the batch, as Adam does by itself."""
    num_iterations: int = option(1, ge=1)
    """Steps with one batch of rollouts; from the second step on, `objective` decides about probability ratios."""
    negative_advantage_weight: float = option(1.0, ge=0, le=1)
    """Factor of advantages below 0. Values below 1 reduce the penalty for failures with bad partners (leaky
    updates, arXiv 2311.01953). This is biased: the cosine between expected and exact gradient is 0.99 at 0.5
    (median of 20 random games; minimum 0.96), and 0.95 at 0 (minimum 0.55)."""
    step_advantage_weight: float = option(0.0, ge=0)
    """In the rollout mode `episodes`, weight w of a second advantage, among the completions for equal joint
    prompts of the same turn (GiGPO, arXiv 2505.10978, where it is 1). If no other completion has the same joint
    prompts, the second advantage equals the first. So the weight of every turn is 1 + w."""
    turn_gradient_weights: tuple[NonNegative, ...] | None = None
    """Factor of each turn's loss, as in `[1.2, 0.8]`; `None` means 1. A configuration with a single turn ignores
    it."""
    early_termination_weight: float = option(2.0, ge=0)
    """Factor of the loss of groups that `early_termination_threshold` ended before the last turn."""

    @property
    def normalizes_groups(self) -> bool:
        """Whether advantages are divided by the standard deviation of their group's returns."""
        return self.normalize_advantages in (True, "group")


class UpdateOptions(StepOptions):
    """Options of updates: those of the policies' steps, and a section for each optional feature."""

    objective: ObjectiveOptions = field(default_factory=ObjectiveOptions)
    importance_sampling: ImportanceSamplingOptions = field(
        default_factory=ImportanceSamplingOptions
    )
    kl: KLOptions = field(default_factory=KLOptions)
    truncation: TruncationOptions = field(default_factory=TruncationOptions)
    joint_aggregation: AggregationOptions = field(default_factory=AggregationOptions)
    critic: CriticOptions = field(default_factory=CriticOptions)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_iterations == 1:
            # With one step, the divergence as a reward has the gradient of the one in the loss.
            # `clip_range` is no such option: runs of earlier versions have stored it with its default of 0.2.
            several = ("objective.name", "objective.clip_range_high", "kl.placement")
            remedy = "change num_iterations, or drop it"
            refuse_changes(self, several, "num_iterations=1", remedy)


class LearnerOptions(UpdateOptions):
    """All options of a learner.

    Raises:
        ValueError: If a value is out of its range, or two do not fit together.
    """

    discount: float = option(1.0, ge=0, le=1)
    """Weight of a reward a turn later. Without a critic, the rollout mode `chain` ignores it, because a return
    then contains only the reward of its own turn.

    A value below 1 is biased, since the loss of turn t has no factor discount^t (arXiv 1906.07073): the cosine
    between expected and exact gradient of the discounted return is 0.999 at 0.9 and 0.96 at 0.5 (median of 20
    random games of two turns; minimum 0.94)."""
    total_updates: int | None = option(None, ge=1)
    """Number of updates of the run; needed by the schedules that fall."""
    fixed_length: int | None = option(None, ge=1)
    """Number of tokens that the loss `fixed_length` divides by, such as the longest allowed completion."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss == "fixed_length" and self.fixed_length is None:
            raise ValueError("loss 'fixed_length' needs fixed_length, a number of tokens")
        if self.lr_schedule != "constant" and self.total_updates is None:
            raise ValueError(f"lr_schedule {self.lr_schedule!r} needs total_updates")
        if self.joint_aggregation.name == "annealed" and self.total_updates is None:
            raise ValueError("joint_aggregation 'annealed' needs total_updates")

    def check_horizon(self, num_turns: int) -> None:
        """Raise a `ValueError` unless there is a weight for each of `num_turns` turns."""
        weights = self.turn_gradient_weights
        if weights is not None and len(weights) != num_turns:
            raise ValueError(
                f"turn_gradient_weights needs one weight for each of num_turns={num_turns} turns, "
                f"got {weights}"
            )

    def turn_weight(self, turn: int, stopped_early: bool) -> float:
        """Return the factor of the loss of a group on a turn, counted from 0."""
        weights = self.turn_gradient_weights
        if weights is not None and turn >= len(weights):
            self.check_horizon(turn + 1)
        weight = 1.0 if weights is None else weights[turn]
        return weight * (self.early_termination_weight if stopped_early else 1.0)
