"""Correction of samples that others than the present policy have drawn: importance weights with bounds.

Letters: G completions of one prompt, T tokens of the longest one; pi the policy as it is when it begins to learn
from the samples, mu what sampled them, by the log-probabilities that were recorded (`Completion.log_probs`). They
differ where rollouts wait (`lag`), where a server computes with other numbers, and in bfloat16. The ratios are

    r_gt = pi_gt / mu_gt  (level token),    r_g = prod_t r_gt, the same on all tokens  (level sequence)

and the gradient of each token is multiplied by a weight, a constant, that bounds them by the cap C > 1:

    truncate:  w = min(r, C)                     (Ionides 2008, "Truncated importance sampling"; arXiv 1802.01561)
    mask:      w = r if 1/C <= r <= C, else 0    (IcePop, arXiv 2510.18855, there with two bounds of their own)

This is not the ratio of an objective of several steps with one batch (`objectives.py`), which is that of the
policy as it moves away from pi, and which alone is clipped. The product of both is the decoupled objective of
arXiv 2110.00641, with pi for its proximal policy.

Ratios of whole completions without a bound give an unbiased gradient of a single agent with one turn, with a
variance that grows exponentially with T; those of team-mates and of other turns are left out. Those of tokens
leave out that mu has chosen what came before, too: a bias that is small while the two are close. Bounds add a bias
where they bind.

Degenerate cases: where pi = mu every weight is 1, and both modes have the plain gradient. A completion of one
token has the same ratio on both levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from llm_decpomdp.algorithms.learning.learner_options import UpdateOptions
from llm_decpomdp.algorithms.learning.losses import masked
from llm_decpomdp.policy import Completion

LIMIT = 20.0
"""Largest distance of a log-ratio from 0 that is told apart: e^20 is beyond any cap, and still a number."""


def importance_ratio(log_probs: Tensor, sampled: Tensor, mask: Tensor, level: str) -> Tensor:
    """Return r = pi / mu of each token, or of its whole completion, (G, T), float64, without a gradient.

    Args:
        log_probs: log pi, (G, T), in nats.
        sampled: log mu, (G, T), in nats; may be anything on padding.
        mask: (G, T).
        level: `token` or `sequence`.
    """
    difference = masked(log_probs.detach().double() - sampled.double(), mask)
    if level == "sequence":
        difference = difference.sum(-1, keepdim=True).expand_as(difference)
    return difference.clamp(-LIMIT, LIMIT).exp()


def out_of_bounds(ratio: Tensor, mode: str, cap: float) -> Tensor:
    """Return True where a bound of the mode binds, (G, T): above the cap C, with `mask` also below 1/C."""
    above = ratio > cap
    return above | (ratio < 1 / cap) if mode == "mask" else above


def bounded_weight(ratio: Tensor, mode: str, cap: float) -> Tensor:
    """Return w, the factor of each token's gradient, (G, T).

    Args:
        ratio: r, (G, T).
        mode: `truncate` or `mask`.
        cap: C, above 1.
    """
    if mode == "truncate":
        return ratio.clamp(max=cap)
    return ratio.masked_fill(out_of_bounds(ratio, mode, cap), 0.0)


def corrected(
    options: UpdateOptions,
    completions: Sequence[Completion],
    log_probs: Tensor,
    sampled: Tensor,
    mask: Tensor,
) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Compute the weights that the options name, and what metrics are made of.

    Args:
        options: Of the update, with a `correction`.
        completions: G completions.
        log_probs: log pi before the first step with the batch, (G, T).
        sampled: log mu, (G, T); not a number where the sampler told none.
        mask: 1 for each token, (G, T).

    Returns:
        The weights (G, T), in the format of `log_probs`, and terms of `TokenMetrics` by name, (G, T).

    Raises:
        ValueError: If the sampler told no log-probabilities.
    """
    if any(len(text.log_probs) != len(text.tokens) for text in completions):
        raise ValueError(
            f"correction={options.correction} compares with the log-probabilities of what sampled, and a "
            "completion has none: set correction=none, or let its policy record them (Completion.log_probs)"
        )
    ratio = importance_ratio(log_probs, sampled, mask, options.correction_level)
    weight = bounded_weight(ratio, options.correction, options.correction_cap)
    beyond = out_of_bounds(ratio, options.correction, options.correction_cap)
    terms = {"ratio": ratio, "masked": beyond.double(), "weight": weight, "square": weight**2}
    return weight.to(log_probs), terms
