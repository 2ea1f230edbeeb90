"""The loss of one agent's completions of one prompt: objective, divergence from the reference, reduction.

Letters: G completions of the prompt, T tokens of the longest one, q_gt = pi / pi_old of a token, l and h the
distances below and above 1 at which a ratio is clipped. Terms of shape (G, T) become a scalar by a reduction.
Masks are 1 where a token counts and 0 on padding, whose log-probabilities may have any value.

With one step for each batch the ratios are 1 and the loss is the plain policy gradient. With several steps, an
objective says what happens to a token whose probability has changed since it was sampled; its gradient at
pi = pi_old is that of the policy gradient. The ratio of an agent is its own: teammates change too, which this
leaves out. `joint_effective_sample_size` measures how much.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from llm_decpomdp.agents.inference.determinism import cumulative_sum
from llm_decpomdp.algorithms.learning.advantages import GroupAdvantages
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions, UpdateOptions
from llm_decpomdp.algorithms.rollouts.rollout import Group
from llm_decpomdp.policy import Completion

Reduction = Callable[[Tensor, Tensor, float | None], Tensor]
"""From terms (G, T), mask (G, T) and a number of tokens, which some reductions ignore, to a scalar."""
Ratio = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From log-probabilities, those of the policy that sampled, and a mask, all (G, T), to ratios (G, T)."""
Surrogate = Callable[[Tensor, Tensor, Tensor, float, float], Tensor]
"""From log-probabilities (G, T), ratios (G, T), advantages (G, T) or (G, 1), l and h to terms (G, T)."""


@dataclass(frozen=True)
class LossInputs:
    """The input of `Algorithm.loss`: one agent's completions in one group."""

    agent: str
    """The agent."""
    source: GroupAdvantages
    """The group: start, turn, prompts, texts, rewards and values."""
    log_probs: Tensor
    """(G, T), log pi of the sampled tokens in nats, differentiable."""
    old_log_probs: Tensor
    """(G, T), the same before the first step with this batch; constants."""
    sampler_log_probs: Tensor
    """(G, T), as the sampler recorded them; constants, not a number where it recorded none."""
    reference_log_probs: Tensor | None
    """(G, T), under the reference policy; constants. `None` unless `Algorithm.needs_reference`."""
    mask: Tensor
    """(G, T), 1 where a token counts."""
    advantages: Tensor
    """(G,), or (G, T) if they differ by token; constants."""
    options: LearnerOptions
    """Options of the learner."""

    @property
    def completions(self) -> Sequence[Completion]:
        """The agent's G completions."""
        return self.source.group.completions[self.agent]


@dataclass(frozen=True)
class LossOutputs:
    """The output of `Algorithm.loss`."""

    loss: Tensor
    """Scalar, differentiable; the learner multiplies it by the weight of the group, and averages over starts."""
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    """Terms (G, T) by name, whose means over the tokens in the loss are written to `metrics.jsonl`, for each
    agent. Not a number where a token has no such term."""


def policy_loss(inputs: LossInputs) -> LossOutputs:
    """Compute the loss of group-relative algorithms: importance weight x (objective + KL), reduced over tokens.

    Raises:
        ValueError: If there is a `correction` and the sampler recorded no log-probabilities.
    """
    options, mask = inputs.options, inputs.mask
    reference = inputs.reference_log_probs if options.kl_coefficient else None
    log_probs, old = inputs.log_probs, inputs.old_log_probs
    terms = loss_terms(options, log_probs, old, inputs.advantages, mask, reference)
    metrics = {"clip_fraction": is_clipped(options, log_probs, old, mask)}
    if options.correction != "none":
        # Weights are those of the policy before the first step; the objective's own ratio covers later steps.
        weight, correction = importance_weights(
            options, inputs.completions, old, inputs.sampler_log_probs, mask
        )
        terms = weight * terms
        metrics |= correction
    return LossOutputs(reduce_terms(inputs, terms), metrics)


def reduce_terms(inputs: LossInputs, terms: Tensor) -> Tensor:
    """Reduce terms (G, T) to a scalar by the reduction that the option `loss` names."""
    options = inputs.options
    fixed = options.loss == "fixed_length"
    tokens = options.fixed_length if fixed else inputs.source.tokens.get(inputs.agent)
    return REDUCTIONS[options.loss](terms, inputs.mask, tokens)


# --------------------------------------------------------------------------------------- objectives


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
"""Ratio and surrogate by the name of an objective; `UpdateOptions.clip_bounds` has the range of each."""


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
        log_probs, ratio(log_probs, old, mask), _expand_tokens(advantages).detach(), low, high
    )


def loss_terms(
    options: UpdateOptions,
    log_probs: Tensor,
    old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    reference: Tensor | None,
) -> Tensor:
    """Compute the terms of the loss: the objective, and the divergence from the reference.

    With `kl=reward`, the divergence of the sampled tokens from t on is subtracted from each token's advantage,

        A_gt = A_g - c sum_{s >= t} d_gs,    d = log pi_old - log reference

    (the estimator k1 as a return-to-go). Both forms have the gradient of the divergence at pi = pi_old. In later
    steps, the divergence in the reward is that of the samples, weighted and clipped like any other reward.

    Args:
        options: Of the update; `kl_coefficient` is c.
        log_probs: (G, T).
        old: (G, T), of the policy that sampled; constants.
        advantages: (G,), or (G, T) if they differ by token; constants.
        mask: (G, T).
        reference: Log-probabilities of the reference, (G, T), constants; needed if c is above 0.

    Returns:
        (G, T).
    """
    if options.updates_per_batch == 1:
        # All ratios are 1, and clipping never acts: the same gradient without their rounding errors.
        terms = policy_gradient(log_probs, advantages)
    else:
        if options.kl == "reward" and reference is not None:
            penalty = options.kl_coefficient * kl_to_come(old, reference, mask)
            advantages = _expand_tokens(advantages) - penalty
        bounds = options.clip_bounds
        terms = objective_terms(options.objective, log_probs, old, advantages, mask, *bounds)
    if options.kl == "loss" and reference is not None:
        terms = terms + options.kl_coefficient * kl_divergence(log_probs, reference, mask)
    return terms


def is_clipped(options: UpdateOptions, log_probs: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """Return True where the ratio of the objective is outside its clip range, (G, T)."""
    low, high = options.clip_bounds
    ratio, _ = OBJECTIVES[options.objective]
    distance = ratio(log_probs, old, mask).detach() - 1
    return (distance > high) | (distance < -low)


def _expand_tokens(advantages: Tensor) -> Tensor:
    return advantages.unsqueeze(-1) if advantages.dim() == 1 else advantages


# ------------------------------------------------------------- policy gradient and KL divergence


def policy_gradient(log_probs: Tensor, advantages: Tensor) -> Tensor:
    """-A_g log pi_gt, (G, T): its gradient is the negative policy gradient (REINFORCE, Williams 1992).

    Assumption: the completions come from the policy that is updated. Advantages are (G,) or (G, T).
    """
    return -_expand_tokens(advantages).detach() * log_probs


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
    return cumulative_sum(difference.flip(-1)).flip(-1)


def kl_estimate(log_probs: Tensor, reference: Tensor) -> Tensor:
    """exp(-d) - 1 + d with d = log pi - log reference: never below 0, and its mean is the divergence.

    (Schulman 2020, "Approximating KL divergence", k3.) Use it for metrics only: see `kl_divergence`.

    Returns:
        (G, T), in nats, without a gradient.
    """
    difference = (log_probs - reference).detach()
    return torch.expm1(-difference) + difference


# --------------------------------------------------------------------------------------- reductions


def sequence_sum(terms: Tensor, mask: Tensor, tokens: float | None = None) -> Tensor:
    """(1/G) sum_g sum_t m_gt x_gt: every token of every completion weighs the same."""
    return mask_terms(terms, mask).sum() / len(terms)


def token_mean(terms: Tensor, mask: Tensor, tokens: float | None = None) -> Tensor:
    """sum_gt m_gt x_gt / sum_gt m_gt: a group with long completions weighs as much as one with short ones.

    (DAPO, arXiv 2503.14476, eq. 8, for a single group.) In a group of one completion, every token would weigh
    1/length. Therefore, if completions are compared over several groups, `tokens` is the mean number of tokens of
    these groups, and all their tokens weigh the same.
    """
    return mask_terms(terms, mask).sum() / (mask.sum().clamp(min=1) if tokens is None else tokens)


def fixed_length(terms: Tensor, mask: Tensor, tokens: float | None) -> Tensor:
    """(1/(G L)) sum_g sum_t m_gt x_gt with a constant number of tokens L (Dr. GRPO, arXiv 2503.20783).

    `sequence_sum` on the scale of a token, so that the learning rate does not depend on the longest completion.
    """
    assert tokens is not None, "fixed_length divides by a number of tokens"
    return mask_terms(terms, mask).sum() / (len(terms) * tokens)


REDUCTIONS: Mapping[str, Reduction] = {
    "sequence_sum": sequence_sum,
    "token_mean": token_mean,
    "fixed_length": fixed_length,
}
"""Reduction by the name of its loss."""


# ------------------------------------------------------------------------------ importance sampling
#
# Weights with bounds, for samples that another policy than the current one has drawn. mu is the policy that
# sampled, by the recorded log-probabilities (`Completion.log_probs`), pi the policy before its first step with the
# samples. They differ if rollouts are older than the weights (`lag`), if a server computes in another precision,
# and in bfloat16. The ratios are
#
#     r_gt = pi_gt / mu_gt  (level token),    r_g = prod_t r_gt, the same on all tokens  (level sequence)
#
# and the gradient of each token is multiplied by a constant weight that bounds them by the cap C > 1:
#
#     truncate:  w = min(r, C)                     (Ionides 2008; V-trace, arXiv 1802.01561)
#     mask:      w = r if 1/C <= r <= C, else 0    (IcePop, arXiv 2510.18855, there with two separate bounds)
#
# The ratio of an objective is another one: it compares the policy in later steps with pi, and only that ratio is
# clipped. The product of both is the decoupled objective of arXiv 2110.00641, with pi as its proximal policy.
#
# Unbounded ratios of whole completions give an unbiased gradient for a single agent with one turn, with a variance
# that grows exponentially with T; the ratios of teammates and of other turns are left out. Ratios of tokens also
# ignore that mu chose the preceding tokens: a bias that is small while the two policies are close. Bounds add a
# bias whenever they are reached.
#
# Degenerate cases: if pi = mu, every weight is 1 and both modes have the plain gradient. A completion of one token
# has the same ratio on both levels.

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
    doubled = 2 * log_weights.logsumexp(0) - (2 * log_weights).logsumexp(0)
    return float(doubled.exp()) / len(log_weights)


def mask_terms(terms: Tensor, mask: Tensor) -> Tensor:
    """Return the terms with 0 on padding, and no gradient there, (G, T)."""
    return terms.masked_fill(mask == 0, 0.0)
