"""How a learner steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from llm_decpomdp.validation import unknown

LOSSES = ("sequence_sum", "token_mean", "fixed_length")
SCHEDULES = ("constant", "linear", "cosine")
TRUNCATED = ("train", "mask", "penalise")


@dataclass(frozen=True)
class LearnerOptions:
    """How the policies step along their gradients (AdamW).

    Raises:
        ValueError: If a value is out of its range, or two do not fit together.
    """

    learning_rate: float
    weight_decay: float = 0.0
    """Of matrices; biases and norms never decay."""
    max_grad_norm: float | None = None
    """Largest norm of a policy's gradient; a longer one is shortened. `None` leaves all alone."""
    lr_schedule: str = "constant"
    """`constant`, `linear` or `cosine`: how the learning rate falls after the warm-up."""
    warmup_updates: int = 0
    """Updates over which the learning rate rises."""
    total_updates: int | None = None
    """All updates of the run; needed by the schedules that fall."""
    discount: float = 1.0
    """What a reward counts a turn later, in [0, 1]; only trees have returns that reach over turns."""
    normalize_advantages: bool = False
    """Divide advantages by the standard deviation of their group's returns.

    Tasks with small differences then weigh as much as those with large ones. Nothing is centred
    again: after z-scoring all baselines would be the same algorithm, while here they still differ by their
    shift. `mean` and `leave_one_out`, which differ by a factor, become equal, as they nearly are
    under Adam in any case."""
    turn_gradient_weights: tuple[float, ...] | None = None
    """Factor of each turn's loss, one for each turn of the horizon; `None` means 1 everywhere."""
    early_termination_weight: float = 2.0
    """Further factor of the groups at which a rollout stopped early."""
    loss: str = "sequence_sum"
    """How tokens are added up: `sequence_sum`, `token_mean` or `fixed_length`; see `losses`."""
    fixed_length: int | None = None
    """Tokens that `fixed_length` divides by, such as the longest allowed completion."""
    updates_per_batch: int = 1
    """Steps along the loss of one batch of rollouts.

    From the second on the policy is another one than that which sampled, and ratios are clipped."""
    clip_range: float = 0.2
    """How far a token's probability ratio counts; without effect with one step a batch."""
    kl_coefficient: float = 0.0
    """Weight of the divergence from the reference; 0 keeps none.

    It is what full weights were before training. For an adapter it is the model without adapters, also where
    the adapter was trained before. Later steps on a batch take its samples as if they were their own."""
    truncated: str = "train"
    """What completions that hit the token limit are: `train` like any other, `mask` (compared with, and
    not trained), or `penalise` (worth less by `truncation_penalty`, for the agent that wrote them)."""
    truncation_penalty: float = 0.0
    """In the units of the reward."""

    def __post_init__(self) -> None:
        self._check_numbers()
        for name, names in (
            ("loss", LOSSES),
            ("lr_schedule", SCHEDULES),
            ("truncated", TRUNCATED),
        ):
            if getattr(self, name) not in names:
                raise ValueError(unknown(name, getattr(self, name), names))
        if self.loss == "fixed_length" and self.fixed_length is None:
            raise ValueError("loss 'fixed_length' needs fixed_length, a number of tokens")
        if self.lr_schedule != "constant" and self.total_updates is None:
            raise ValueError(f"lr_schedule {self.lr_schedule!r} needs total_updates")
        if (self.truncated == "penalise") != (self.truncation_penalty > 0):
            raise ValueError(
                "truncated='penalise' and a truncation_penalty above 0 need each other, got "
                f"{self.truncated!r} and {self.truncation_penalty!r}"
            )

    def _check_numbers(self) -> None:
        for name in (
            "learning_rate",
            "weight_decay",
            "early_termination_weight",
            "kl_coefficient",
            "truncation_penalty",
        ):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")
        counts = {
            "updates_per_batch": 1,
            "warmup_updates": 0,
            "fixed_length": 1,
            "total_updates": 1,
        }
        for name, least in counts.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, got {value!r}")
        if not 0 <= self.discount <= 1:
            raise ValueError(f"discount must lie in [0, 1], got {self.discount!r}")
        if not 0 < self.clip_range < 1:
            raise ValueError(f"clip_range must lie between 0 and 1, got {self.clip_range!r}")
        if self.max_grad_norm is not None and not self.max_grad_norm > 0:
            raise ValueError(f"max_grad_norm must be above 0 or None, got {self.max_grad_norm!r}")
        for weight in self.turn_gradient_weights or ():
            if not (math.isfinite(weight) and weight >= 0):
                raise ValueError(
                    f"turn_gradient_weights must be finite numbers of at least 0, "
                    f"got {self.turn_gradient_weights!r}"
                )

    def check_horizon(self, num_turns: int) -> None:
        """Raise a `ValueError` unless there is a weight for each of `num_turns` turns."""
        weights = self.turn_gradient_weights
        if weights is not None and len(weights) != num_turns:
            raise ValueError(
                f"turn_gradient_weights needs one weight for each of {num_turns} turns, "
                f"got {weights}"
            )

    def turn_weight(self, turn: int, stopped_early: bool) -> float:
        """The factor of the loss of a group on a turn, counted from 0."""
        weights = self.turn_gradient_weights
        if weights is not None and turn >= len(weights):
            self.check_horizon(turn + 1)
        weight = 1.0 if weights is None else weights[turn]
        return weight * (self.early_termination_weight if stopped_early else 1.0)
