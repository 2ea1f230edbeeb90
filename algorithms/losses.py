"""Losses of one group. Letters: G completions of one prompt, T tokens of the longest one."""

from __future__ import annotations

import torch


def policy_gradient_loss(
    log_probs: torch.Tensor, mask: torch.Tensor, advantages: torch.Tensor
) -> torch.Tensor:
    """L = -(1/G) sum_g A_g sum_t m_gt log pi_gt.

    Its gradient is the negative policy gradient (REINFORCE). Tokens are summed, not averaged over a
    completion's length, which would favour long wrong answers (Dr. GRPO, arXiv 2503.20783).

    Args:
        log_probs: (G, T), log-probabilities of the sampled tokens, in nats.
        mask: (G, T), 1 where a token was sampled, the end-of-sequence token included; 0 on padding,
            whose log-probabilities may have any value.
        advantages: (G,), constants.

    Returns:
        A scalar.
    """
    totals = log_probs.masked_fill(mask == 0, 0.0).sum(-1)  # (G,)
    return -(advantages.detach() * totals).mean()
