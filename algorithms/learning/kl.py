"""The reference policy, and the divergence from it: gradient, sum over later tokens, estimate for metrics."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import torch
from torch import Tensor

from llm_decpomdp.agents.inference.determinism import cumulative_sum
from llm_decpomdp.algorithms.learning.losses import mask_terms
from llm_decpomdp.policy import ReferencedPolicy, TrainablePolicy, policy_attribute

logger = logging.getLogger(__name__)


def keep_references(
    policies: Mapping[str, TrainablePolicy], needed_by: str, remedy: str
) -> dict[str, str]:
    """Make the current weights of each policy its reference, and return and log which model that is.

    Raises:
        TypeError: If a policy keeps no reference; `needed_by` and `remedy` are parts of its text.
    """
    references = {}
    for name, policy in policies.items():
        if not isinstance(policy, ReferencedPolicy):
            raise TypeError(
                f"{needed_by} needs policies that keep a reference, and {name!r} is a "
                f"{type(policy).__name__}; {remedy}"
            )
        policy.keep_reference()
        words = policy_attribute(policy, "reference_name") or "its weights at the start"
        references[name] = words
        logger.info(
            "the KL reference of %s is %s: changes by training since then, as in a warm start, count in the "
            "KL divergence",
            name,
            words,
        )
    return references


def kl_divergence(log_probs: Tensor, reference: Tensor, mask: Tensor) -> Tensor:
    """Terms whose gradient is that of KL(pi || reference) over whole completions.

    With d_t = log pi_t - log reference_t of the sampled tokens the divergence is E[sum_t d_t], and

        grad KL = E[sum_t (sum_{s >= t} d_s) grad log pi_t]

    because a token also decides which tokens follow. Backpropagating through an estimate such as
    exp(-d) - 1 + d instead gives the gradient of another divergence (arXiv 2506.09477).

    Returns:
        (G, T); only their gradient is meaningful.
    """
    return kl_to_come(log_probs, reference, mask) * log_probs


def kl_to_come(log_probs: Tensor, reference: Tensor, mask: Tensor) -> Tensor:
    """sum_{s >= t} m_s d_s with d = log pi - log reference: the divergence of the sampled tokens from t on.

    (Schulman 2020, "Approximating KL divergence", k1; shapes as in `kl_divergence`, without a gradient.)
    Subtracted from the advantages, it has the exact gradient. The estimator k3 does not: E[k3 grad log pi] is
    nearly 0 near the reference, and has another direction far from it (arXiv 2506.09477, 2512.21852).
    """
    difference = mask_terms(log_probs - reference, mask).detach()
    # Not `torch.cumsum`, which is not deterministic on CUDA.
    return cumulative_sum(difference.flip(-1)).flip(-1)


def kl_estimate(log_probs: Tensor, reference: Tensor) -> Tensor:
    """exp(-d) - 1 + d with d = log pi - log reference: never below 0, and its mean is the divergence.

    (Schulman 2020, "Approximating KL divergence", k3.) Use it for metrics only: see `kl_divergence`.

    Returns:
        (G, T), in nats, without a gradient.
    """
    difference = (log_probs - reference).detach()
    # `expm1` keeps the digits that exp(-d) - 1 loses near d = 0.
    return torch.expm1(-difference) + difference
