"""Objectives of several steps with one batch: what a token's loss is once the policy has moved since it sampled.

Letters: G completions of one prompt, T tokens of the longest one, q_gt = pi / pi_old of a token, l and h the
distances below and above 1 at which a ratio is clipped. All terms are of shape (G, T), for the reductions of
`losses.py`; their gradient at pi = pi_old is that of `policy_gradient`, and one step needs none of them.

An agent's ratio is its own: that of its team-mates, who move too, is left out. What this leaves out is the spread
of the joint ratio, which grows with the team; `effective_share` measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from llm_decpomdp.algorithms.learning.learner_options import UpdateOptions
from llm_decpomdp.algorithms.learning.losses import (
    kl_divergence,
    kl_to_come,
    masked,
    policy_gradient,
)
from llm_decpomdp.algorithms.rollouts.rollout import Group

Ratio = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From log-probabilities, those of the policy that sampled, and a mask, all (G, T), to ratios (G, T)."""
Surrogate = Callable[[Tensor, Tensor, Tensor, float, float], Tensor]
"""From log-probabilities (G, T), ratios (G, T), advantages (G, T) or (G, 1), l and h to terms (G, T)."""


def token_ratio(log_probs: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """q_gt, the ratio of each token by itself."""
    return masked(log_probs - old.detach(), mask).exp()


def sequence_ratio(log_probs: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """s_g = exp(mean_t log q_gt), the same on all tokens of a completion (GSPO, arXiv 2507.18071, eq. 7).

    Its value is that of the completion, and its gradient at each token s_g grad log pi_gt (GSPO-token, eq. 14):
    advantages may differ by token, and a reduction weighs tokens as ever. Under `sequence_sum` a completion of n
    tokens thus weighs n times what it does in the paper's eq. 5, as it does under all objectives.

    Degenerate case: completions of one token have the ratio of the token.
    """
    difference = masked(log_probs - old.detach(), mask)
    mean = difference.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
    return mean.detach().exp() * (difference - difference.detach()).exp()


def clipped(log_probs: Tensor, ratio: Tensor, gain: Tensor, low: float, high: float) -> Tensor:
    """-min(q A, clip(q, 1 - l, 1 + h) A) (PPO, arXiv 1707.06347, eq. 7).

    A ratio that has left the range on the side that A wants it to has no gradient any more. PPO takes l = h, with
    the ratio of a token as in GRPO (arXiv 2402.03300, eq. 3). DAPO (arXiv 2503.14476, eq. 8) takes h > l, so that
    rare tokens can gain. GSPO takes the ratio of a sequence, whose range is a thousand times as narrow.
    """
    return -torch.minimum(ratio * gain, ratio.clamp(1 - low, 1 + high) * gain)


def weighted(log_probs: Tensor, ratio: Tensor, gain: Tensor, low: float, high: float) -> Tensor:
    """-stop_gradient(clip(q, 1 - l, 1 + h)) A log pi (CISPO, arXiv 2506.13585, eq. 4).

    The ratio is a weight and no more: no token ever loses its gradient. The paper has no lower bound (l = 1).
    """
    return -ratio.detach().clamp(1 - low, 1 + high) * gain * log_probs


class Objective(NamedTuple):
    """A ratio, and the terms that are made of it."""

    ratio: Ratio
    surrogate: Surrogate


OBJECTIVES: Mapping[str, Objective] = {
    "ppo": Objective(token_ratio, clipped),
    "dapo": Objective(token_ratio, clipped),
    "gspo": Objective(sequence_ratio, clipped),
    "cispo": Objective(token_ratio, weighted),
}
"""Objective by name; `UpdateOptions.clip_bounds` has the range of each."""


def objective_terms(
    name: str,
    log_probs: Tensor,
    old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    low: float,
    high: float,
) -> Tensor:
    """Compute the terms of an objective.

    Args:
        name: One of `OBJECTIVES`.
        log_probs: (G, T), of the sampled tokens, in nats.
        old: (G, T), of the policy that sampled; constants.
        advantages: (G,), or (G, T) where they differ by token; constants.
        mask: (G, T).
        low: l, the distance below 1 at which a ratio is clipped; 1 for no lower bound.
        high: h, the distance above 1.

    Returns:
        (G, T).
    """
    ratio, surrogate = OBJECTIVES[name]
    return surrogate(
        log_probs, ratio(log_probs, old, mask), _by_token(advantages).detach(), low, high
    )


def loss_terms(
    options: UpdateOptions,
    log_probs: Tensor,
    old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    reference: Tensor | None,
) -> Tensor:
    """Compute the terms of the loss that the options name: the objective, and the pull of the reference.

    As `kl=reward`, each token's advantage is lessened by the divergence that was sampled from it on,

        A_gt = A_g - c sum_{s >= t} d_gs,    d = log pi_old - log reference

    (the estimator k1 as a return-to-go). Both forms have the gradient of the divergence at pi = pi_old; later on
    the one in the reward is that of the samples, weighted and clipped like any other reward.

    Args:
        options: Of the update; `kl_coefficient` is c.
        log_probs: (G, T).
        old: (G, T), of the policy that sampled; constants.
        advantages: (G,), constants.
        mask: (G, T).
        reference: Log-probabilities of the reference, (G, T), constants; needed if c is above 0.

    Returns:
        (G, T).
    """
    if options.updates_per_batch == 1:
        terms = policy_gradient(log_probs, advantages)
    else:
        if options.kl == "reward" and reference is not None:
            penalty = options.kl_coefficient * kl_to_come(old, reference, mask)
            advantages = _by_token(advantages) - penalty
        bounds = options.clip_bounds
        terms = objective_terms(options.objective, log_probs, old, advantages, mask, *bounds)
    if options.kl == "loss" and reference is not None:
        terms = terms + options.kl_coefficient * kl_divergence(log_probs, reference, mask)
    return terms


def left_range(options: UpdateOptions, log_probs: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """Return True where the ratio of the objective has left its range, (G, T)."""
    low, high = options.clip_bounds
    distance = OBJECTIVES[options.objective].ratio(log_probs, old, mask).detach() - 1
    return (distance > high) | (distance < -low)


def joint_log_ratios(group: Group, by_agent: Mapping[str, Tensor]) -> Tensor:
    """Add up the log-ratios of the completions in each joint sample, (J,).

    w_j = prod_i pi_i / pi_old_i of whole completions is the weight with which joint samples of the old team count
    for the new one.

    Args:
        group: The group.
        by_agent: Of each agent that has moved, log(pi / pi_old) of its completions, (G,).
    """
    joint = torch.tensor(group.joint)
    total = torch.zeros(len(group.joint), dtype=torch.float64)
    for position, agent in enumerate(group.completions):
        if agent in by_agent:
            total += by_agent[agent].to(total)[joint[:, position]]
    return total


def effective_share(log_weights: Tensor) -> float:
    """(sum w)^2 / (J sum w^2) of weights e^x, (J,): the effective sample size of J samples, as a share of them.

    1 where all weights are equal, 1/J where one of them is all. With n agents whose log-ratios have the variance
    v each it is about e^(-n v): the number of safe steps with one batch shrinks with the team.
    """
    log_weights = log_weights.double()
    doubled = 2 * log_weights.logsumexp(0) - (2 * log_weights).logsumexp(0)
    return float(doubled.exp()) / len(log_weights)


def team_share(
    group: Group, learning: Collection[str], by_agent: Mapping[str, Tensor]
) -> float | None:
    """Return the effective share of a group's joint samples; `None` where the ratio of a learner is not known."""
    if set(learning) != set(by_agent):
        return None
    return effective_share(joint_log_ratios(group, by_agent))


def _by_token(advantages: Tensor) -> Tensor:
    return advantages.unsqueeze(-1) if advantages.dim() == 1 else advantages
