"""Importance sampling: weights with bounds, for samples that another policy than the current one has drawn.

mu is the policy that sampled, by the recorded log-probabilities (`Completion.log_probs`), pi the policy before its
first step with the samples. They differ if rollouts are older than the weights (`max_async_level`), if a server
computes in another precision, and in bfloat16. The ratios are

    r_gt = pi_gt / mu_gt  (level token),    r_g = prod_t r_gt, the same on all tokens  (level sequence)

and the gradient of each token is multiplied by a constant weight that bounds them by the cap C > 1:

    truncate:  w = min(r, C)                     (Ionides 2008; V-trace, arXiv 1802.01561)
    mask:      w = r if 1/C <= r <= C, else 0    (IcePop, arXiv 2510.18855, there with two separate bounds)

The ratio of an objective is another one: it compares the policy in later steps with pi, and only that ratio is
clipped. The product of both is the decoupled objective of arXiv 2110.00641, with pi as its proximal policy.

Unbounded ratios of whole completions give an unbiased gradient for a single agent with one turn, with a variance
that grows exponentially with T; the ratios of teammates and of other turns are left out. Ratios of tokens also
ignore that mu chose the preceding tokens: a bias that is small while the two policies are close. Bounds add a
bias whenever they are reached.

Degenerate cases: if pi = mu, every weight is 1 and both modes have the plain gradient. A completion of one token
has the same ratio on both levels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from llm_decpomdp.algorithms.learning.learner_options import UpdateOptions
from llm_decpomdp.algorithms.learning.losses import mask_terms
from llm_decpomdp.algorithms.rollouts.rollout import Group
from llm_decpomdp.policy import Completion, Policy, policy_attribute

# Log-ratios are clamped to this: e^20 is larger than any useful cap, and far from the overflow of float64.
LIMIT = 20.0


def importance_ratio(log_probs: Tensor, sampled: Tensor, mask: Tensor, level: str) -> Tensor:
    """Return r = pi / mu of each token, or of its whole completion, (G, T), float64, without a gradient."""
    difference = mask_terms(log_probs.detach().double() - sampled.double(), mask)
    if level == "sequence":
        difference = difference.sum(-1, keepdim=True).expand_as(difference)
    return difference.clamp(-LIMIT, LIMIT).exp()


def out_of_bounds(ratio: Tensor, mode: str, cap: float) -> Tensor:
    """Return True where a bound is reached, (G, T): above the cap C, with `mask` also below 1/C."""
    above = ratio > cap
    return above | (ratio < 1 / cap) if mode == "mask" else above


def bounded_weight(ratio: Tensor, mode: str, cap: float) -> Tensor:
    """Return w, the factor of each token's gradient, (G, T)."""
    if mode == "truncate":
        return ratio.clamp(max=cap)
    return ratio.masked_fill(out_of_bounds(ratio, mode, cap), 0.0)


def importance_weights(
    options: UpdateOptions,
    completions: Sequence[Completion],
    log_probs: Tensor,
    sampled: Tensor,
    mask: Tensor,
) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Compute the weights of the tokens, in the format of `log_probs` (log pi), and terms of metrics, (G, T).

    Raises:
        ValueError: If the sampler recorded no log-probabilities.
    """
    correction = options.importance_sampling
    if any(len(text.log_probs) != len(text.tokens) for text in completions):
        raise ValueError(
            f"importance_sampling.mode={correction.mode} compares with the log-probabilities of what sampled, and "
            "a completion has none: set importance_sampling.mode=none, or let its policy record them "
            "(Completion.log_probs)"
        )
    ratio = importance_ratio(log_probs, sampled, mask, correction.level)
    weight = bounded_weight(ratio, correction.mode, correction.cap)
    beyond = out_of_bounds(ratio, correction.mode, correction.cap)
    terms = {"ratio": ratio, "masked": beyond.double(), "weight": weight, "square": weight**2}
    return weight.to(log_probs), terms


def joint_log_ratios(group: Group, by_agent: Mapping[str, Tensor]) -> Tensor:
    """Return log w_j = sum_i log(pi_i / pi_old_i) of the completions in each joint sample, (J,).

    w_j is the weight with which joint samples of the old team count for the new one. `by_agent` has the log-ratios
    of the agents that have changed, (G,).
    """
    joint = torch.tensor(group.joint)
    total = torch.zeros(len(group.joint), dtype=torch.float64)
    for position, agent in enumerate(group.completions):
        if agent in by_agent:
            total += by_agent[agent].to(total)[joint[:, position]]
    return total


def joint_effective_sample_size(
    group: Group, learning: Collection[str], by_agent: Mapping[str, Tensor]
) -> float | None:
    """Return (sum w)^2 / (J sum w^2) of a group's J joint samples; `None` if a learner's ratio is not known.

    1 if all weights w_j are equal, 1/J if one of them dominates. With n agents whose log-ratios have the variance
    v each, it is about e^(-n v): the number of safe steps with one batch shrinks with the team.
    """
    if set(learning) != set(by_agent):
        return None
    return effective_share(joint_log_ratios(group, by_agent))


def effective_share(log_weights: Tensor) -> float:
    """(sum w)^2 / (J sum w^2) of weights e^x, (J,): the effective sample size as a share of J."""
    log_weights = log_weights.double()
    # In logarithms, because the ratio of a long completion overflows.
    doubled = 2 * log_weights.logsumexp(0) - (2 * log_weights).logsumexp(0)
    return float(doubled.exp()) / len(log_weights)


def require_whole_distribution(agents: Mapping[str, Policy]) -> None:
    """Check that policies sample from the whole distribution whose log-probabilities they record.

    Raises:
        ValueError: If `top_p` or `top_k` truncate it. A token that was kept then has more probability than
            recorded, by an unknown factor that changes with the weights, so no ratio is that of the samples.
    """
    for agent, policy in agents.items():
        if policy_attribute(policy, "cuts"):
            raise ValueError(
                f"a correction compares log-probabilities of the whole distribution, and the policy of {agent!r} "
                "samples from a part of it: set model.top_p=1 and model.top_k=null (of policies, their own), and "
                "a temperature above 0; or set importance_sampling.mode=none"
            )
