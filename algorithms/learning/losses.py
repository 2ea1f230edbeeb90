"""Losses of one group's completions. Letters: G completions of one prompt, T tokens of the longest one.

Terms of shape (G, T) become a scalar by a reduction. Masks: 1 where a token counts, 0 on padding, whose
log-probabilities may have any value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Reduction = Callable[[Tensor, Tensor, float | None], Tensor]
"""From terms (G, T), mask (G, T) and a number of tokens, which some reductions ignore, to a scalar."""


def policy_gradient(log_probs: Tensor, advantages: Tensor) -> Tensor:
    """-A_g log pi_gt: its gradient is the negative policy gradient (REINFORCE, Williams 1992).

    Assumption: the completions come from the policy that is updated.

    Args:
        log_probs: (G, T), log-probabilities of the sampled tokens, in nats.
        advantages: (G,), constants.

    Returns:
        (G, T).
    """
    return -advantages.detach().unsqueeze(-1) * log_probs


def kl_divergence(log_probs: Tensor, reference: Tensor, mask: Tensor) -> Tensor:
    """Terms whose gradient is that of KL(pi || reference) over whole completions.

    With d_t = log pi_t - log reference_t of the sampled tokens the divergence is E[sum_t d_t], and

        grad KL = E[sum_t (sum_{s >= t} d_s) grad log pi_t]

    since a token also decides which tokens follow. Backpropagating through an estimate such as
    exp(-d) - 1 + d instead gives the gradient of another divergence (arXiv 2506.09477).

    Args:
        log_probs: (G, T).
        reference: (G, T), constants.
        mask: (G, T).

    Returns:
        (G, T); only the gradient means something.
    """
    return kl_to_come(log_probs, reference, mask) * log_probs


def kl_to_come(log_probs: Tensor, reference: Tensor, mask: Tensor) -> Tensor:
    """sum_{s >= t} m_s d_s with d = log pi - log reference: the divergence that was sampled from a token on.

    (Schulman 2020, "Approximating KL divergence", k1; shapes as of `kl_divergence`, without a gradient.) Taken
    from the advantages it has the exact gradient. k3 there has not: for E[k3 grad log pi] nearly nothing is left
    near the reference, and far from it the direction is another (arXiv 2506.09477, 2512.21852).
    """
    difference = masked(log_probs - reference, mask).detach()
    return difference.flip(-1).cumsum(-1).flip(-1)


def kl_estimate(log_probs: Tensor, reference: Tensor) -> Tensor:
    """exp(-d) - 1 + d with d = log pi - log reference: never below 0, with the divergence for its mean.

    (Schulman 2020, "Approximating KL divergence", k3.) For metrics: see `kl_divergence` for the gradient.

    Returns:
        (G, T), in nats, without a gradient.
    """
    difference = (log_probs - reference).detach()
    return torch.expm1(-difference) + difference


def sequence_sum(terms: Tensor, mask: Tensor, tokens: float | None = None) -> Tensor:
    """(1/G) sum_g sum_t m_gt x_gt: every token of every completion weighs the same."""
    return masked(terms, mask).sum() / len(terms)


def token_mean(terms: Tensor, mask: Tensor, tokens: float | None = None) -> Tensor:
    """sum_gt m_gt x_gt / sum_gt m_gt: a group with long completions weighs as much as one with short ones.

    (DAPO, arXiv 2503.14476, eq. 8, for a single group.) In a group of one completion every token would weigh
    1/length. So where completions are compared over several groups, `tokens` is the mean number of tokens of these
    groups: all their tokens weigh the same.
    """
    return masked(terms, mask).sum() / (mask.sum().clamp(min=1) if tokens is None else tokens)


def fixed_length(terms: Tensor, mask: Tensor, tokens: float | None) -> Tensor:
    """(1/(G L)) sum_g sum_t m_gt x_gt with a constant number of tokens L (Dr. GRPO, arXiv 2503.20783).

    `sequence_sum` on the scale of a token, so that the learning rate does not depend on the longest completion.
    """
    assert tokens is not None, "fixed_length divides by a number of tokens"
    return masked(terms, mask).sum() / (len(terms) * tokens)


REDUCTIONS: Mapping[str, Reduction] = {
    "sequence_sum": sequence_sum,
    "token_mean": token_mean,
    "fixed_length": fixed_length,
}
"""Reduction by the name of its loss."""


def masked(terms: Tensor, mask: Tensor) -> Tensor:
    """Return the terms with 0 on padding, and no gradient there, (G, T)."""
    return terms.masked_fill(mask == 0, 0.0)
