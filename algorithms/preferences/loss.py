"""The loss of preference pairs, and its gradient agent by agent.

With Delta_i(y) = log pi_i(y|h_i) - log ref_i(y|h_i), summed over tokens and the end included, and
d_ip = Delta_i(w_ip) - Delta_i(l_ip) of agent i in pair p, the margin of the pair and the joint loss are

    m_p = beta sum_i d_ip        L_p = -log sigmoid(m_p) - alpha sum_i log pi_i(w_ip|h_i)

(DPO, arXiv 2305.18290, eq. 7, of the product of the agents' policies; alpha as in arXiv 2404.19733, summed over
tokens.) Agents enter by their sums alone, so the gradient of agent i is that of its own log-probabilities with a
constant weight on each completion:

    dL_p / d log pi_i(w_ip) = -beta sigmoid(-m_p) - alpha        dL_p / d log pi_i(l_ip) = +beta sigmoid(-m_p)

with the margins of all agents taken before any of them moves. No two agents' graphs are ever held together.
Where an agent said the same in both samples its terms cancel, the one of alpha included: it learns nothing.

Degenerate cases: without agents that differ m_p = 0; a margin far below 0 weighs beta, one far above nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus


def pair_losses(margins: Tensor) -> Tensor:
    """-log sigmoid(m) of each pair, in nats, (P,)."""
    return softplus(-margins)


def completion_weights(
    signs: Tensor, margins: Tensor, weights: Tensor, beta: float, alpha: float
) -> Tensor:
    """Return the derivative of sum_p weights_p L_p by the log-probability of each completion of an agent, (C,).

    Args:
        signs: (C, P), 1 where the completion is the pair's winner, -1 where its loser, else 0.
        margins: (P,), m of all agents together.
        weights: (P,).
        beta: Weight of the log-ratios in the margin.
        alpha: Weight of the winners' log-likelihood.
    """
    pull = weights * beta * torch.sigmoid(-margins)
    return -(signs @ pull) - alpha * ((signs > 0).to(weights) @ weights)
