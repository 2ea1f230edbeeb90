"""Objectives of several steps with one batch: what happens to a token whose probability has changed.

Letters: G completions of a prompt, T tokens of the longest one, q_gt = pi / pi_old of a token, l and h the
distances below and above 1 at which a ratio is clipped.

At pi = pi_old, the gradient of an objective is that of the policy gradient. The ratio of an agent is its own:
teammates change too, which this leaves out. `joint_effective_sample_size` (`importance_sampling.py`) measures how
much.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from llm_decpomdp.algorithms.learning.learner_options import UpdateOptions
from llm_decpomdp.algorithms.learning.losses import expand_tokens, mask_terms

Ratio = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From log-probabilities, those of the policy that sampled, and a mask, all (G, T), to ratios (G, T)."""
Surrogate = Callable[[Tensor, Tensor, Tensor, float, float], Tensor]
"""From log-probabilities (G, T), ratios (G, T), advantages (G, T) or (G, 1), l and h to terms (G, T)."""


def token_ratio(log_probs: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """q_gt, the ratio of each token by itself."""
    return mask_terms(log_probs - old.detach(), mask).exp()


def sequence_ratio(log_probs: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """s_g = exp(mean_t log q_gt), the same on all tokens of a completion (GSPO, arXiv 2507.18071, eq. 7).

    The value is that of the completion; the gradient at each token is s_g grad log pi_gt (GSPO-token, eq. 14), so
    that advantages may differ by token and a reduction weighs tokens as usual. Under `sequence_sum` a completion
    of n tokens therefore weighs n times as much as in the paper's eq. 5, as it does with all objectives.

    Degenerate case: completions of one token have the ratio of the token.
    """
    difference = mask_terms(log_probs - old.detach(), mask)
    mean = difference.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
    # The second factor is 1 and only carries the gradient of each token.
    return mean.detach().exp() * (difference - difference.detach()).exp()


def clipped_surrogate(
    log_probs: Tensor, ratio: Tensor, gain: Tensor, low: float, high: float
) -> Tensor:
    """-min(q A, clip(q, 1 - l, 1 + h) A) (PPO, arXiv 1707.06347, eq. 7).

    A ratio outside the range, on the side to which A pushes it, has no gradient. PPO uses l = h with the ratio of
    a token, as GRPO does (arXiv 2402.03300, eq. 3). DAPO (arXiv 2503.14476, eq. 8) uses h > l, so that rare tokens
    can gain probability. GSPO uses the ratio of a sequence, with a range a thousand times as narrow.
    """
    return -torch.minimum(ratio * gain, ratio.clamp(1 - low, 1 + high) * gain)


def weighted_surrogate(
    log_probs: Tensor, ratio: Tensor, gain: Tensor, low: float, high: float
) -> Tensor:
    """-stop_gradient(clip(q, 1 - l, 1 + h)) A log pi (CISPO, arXiv 2506.13585, eq. 4).

    The ratio is only a weight, so no token ever loses its gradient. The paper has no lower bound (l = 1).
    """
    return -ratio.detach().clamp(1 - low, 1 + high) * gain * log_probs


OBJECTIVES: Mapping[str, tuple[Ratio, Surrogate]] = {
    "ppo": (token_ratio, clipped_surrogate),
    "dapo": (token_ratio, clipped_surrogate),
    "gspo": (sequence_ratio, clipped_surrogate),
    "cispo": (token_ratio, weighted_surrogate),
}
"""Ratio and surrogate by the name of an objective; `ObjectiveOptions.clip_bounds` has the range of each."""


def objective_terms(
    name: str,
    log_probs: Tensor,
    old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    low: float,
    high: float,
) -> Tensor:
    """Return the terms of an objective of `OBJECTIVES`, (G, T); arguments as of `loss_terms`, l and h."""
    ratio, surrogate = OBJECTIVES[name]
    return surrogate(
        log_probs, ratio(log_probs, old, mask), expand_tokens(advantages).detach(), low, high
    )


def is_clipped(options: UpdateOptions, log_probs: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """Return True where the ratio of the objective is outside its clip range, (G, T)."""
    low, high = options.objective.clip_bounds
    ratio, _ = OBJECTIVES[options.objective.name]
    distance = ratio(log_probs, old, mask).detach() - 1
    return (distance > high) | (distance < -low)
