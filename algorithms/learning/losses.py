"""The loss of one agent's completions of one prompt: objective, divergence from the reference, reduction, metrics.

Letters: G completions of the prompt, T tokens of the longest one. Terms of shape (G, T) become a scalar by a
reduction. Masks are 1 where a token counts and 0 on padding, whose log-probabilities may have any value.

With one step for each batch the loss is the plain policy gradient. Options add objectives of several steps
(`objectives.py`), the divergence from a reference (`kl.py`) and weights of importance sampling
(`importance_sampling.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.advantages import GroupAdvantages
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions, UpdateOptions
from llm_decpomdp.policy import Completion

Reduction = Callable[[Tensor, Tensor, float | None], Tensor]
"""From terms (G, T), mask (G, T) and a number of tokens, which some reductions ignore, to a scalar."""


@dataclass(frozen=True)
class LossInputs:
    """The input of `Algorithm.loss`: one agent's completions in one group."""

    agent: str
    """The agent."""
    group: GroupAdvantages
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
        return self.group.group.completions[self.agent]


@dataclass(frozen=True)
class LossOutputs:
    """The output of `Algorithm.loss`."""

    loss: Tensor
    """Scalar, differentiable; the learner multiplies it by the weight of the group, and averages over starts."""
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    """Terms (G, T) by name, whose means over the tokens in the loss are written to `metrics.jsonl`, for each
    agent. Not a number where a token has no such term."""


def check_outputs(name: str, outputs: Any, shape: torch.Size) -> None:
    """Raise a `TypeError` unless an algorithm's loss gave a scalar, and terms of metrics of the shape (G, T)."""
    result = f"a {type(outputs).__name__}"
    if isinstance(outputs, LossOutputs):
        parts = {"loss": outputs.loss, **outputs.metrics}
        shapes = {
            key: tuple(getattr(part, "shape", (type(part).__name__,)))
            for key, part in parts.items()
        }
        required = {**dict.fromkeys(parts, tuple(shape)), "loss": ()}
        if shapes == required:
            return
        result = f"the shapes {shapes}"
    raise TypeError(
        f"{name}.loss must return LossOutputs(loss, metrics), with a scalar loss and metrics of the shape of "
        f"log_probs, {tuple(shape)}; got {result}"
    )


def check_log_probs(agent: str, values: Any, number: int) -> None:
    """Raise a `TypeError` unless a policy gave differentiable log-probabilities and a mask, (G, T) each."""
    result = f"a {type(values).__name__}"
    if isinstance(values, tuple | list) and all(isinstance(part, Tensor) for part in values):
        shapes = [tuple(part.shape) for part in values]
        result = f"the shapes {shapes}"
        if len(shapes) == 2 and shapes[0] == shapes[1] and len(shapes[0]) == 2:
            log_probs = values[0]
            if len(log_probs) == number and (log_probs.requires_grad or not log_probs.numel()):
                return
            if len(log_probs) == number:
                result = "log-probabilities without a gradient"
    raise TypeError(
        f"log_probs() of the policy of {agent!r} must return differentiable log-probabilities and a mask, both of "
        f"shape ({number}, T) for {number} completions; got {result}"
    )


def policy_loss(inputs: LossInputs) -> LossOutputs:
    """Compute the loss of group-relative algorithms: importance weight x (objective + KL), reduced over tokens.

    Raises:
        ValueError: If there is a correction (`importance_sampling`) and the sampler recorded no log-probabilities.
    """
    options, mask = inputs.options, inputs.mask
    reference = inputs.reference_log_probs if options.kl.coefficient else None
    log_probs, old = inputs.log_probs, inputs.old_log_probs
    terms = loss_terms(options, log_probs, old, inputs.advantages, mask, reference)
    metrics: dict[str, Tensor] = {}
    if options.num_iterations > 1:
        from llm_decpomdp.algorithms.learning.objectives import is_clipped

        metrics["clip_fraction"] = is_clipped(options, log_probs, old, mask)
    if options.importance_sampling.mode != "none":
        from llm_decpomdp.algorithms.learning.importance_sampling import importance_weights

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
    tokens = options.fixed_length if fixed else inputs.group.tokens.get(inputs.agent)
    return REDUCTIONS[options.loss](terms, inputs.mask, tokens)


def loss_terms(
    options: UpdateOptions,
    log_probs: Tensor,
    old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    reference: Tensor | None,
) -> Tensor:
    """Compute the terms of the loss: the objective, and the divergence from the reference.

    With `kl.placement=reward`, the divergence of the sampled tokens from t on is subtracted from each token's
    advantage,

        A_gt = A_g - c sum_{s >= t} d_gs,    d = log pi_old - log reference

    (the estimator k1 as a return-to-go). Both forms have the gradient of the divergence at pi = pi_old. In later
    steps, the divergence in the reward is that of the samples, weighted and clipped like any other reward.

    Args:
        options: Of the update; `kl.coefficient` is c.
        log_probs: (G, T).
        old: (G, T), of the policy that sampled; constants.
        advantages: (G,), or (G, T) if they differ by token; constants.
        mask: (G, T).
        reference: Log-probabilities of the reference, (G, T), constants; needed if c is above 0.

    Returns:
        (G, T).
    """
    if options.num_iterations == 1:
        # All ratios are 1, and clipping never acts: the same gradient without their rounding errors.
        terms = policy_gradient(log_probs, advantages)
    else:
        from llm_decpomdp.algorithms.learning.objectives import objective_terms

        if options.kl.placement == "reward" and reference is not None:
            from llm_decpomdp.algorithms.learning.kl import kl_to_come

            penalty = options.kl.coefficient * kl_to_come(old, reference, mask)
            advantages = expand_tokens(advantages) - penalty
        bounds = options.objective.clip_bounds
        terms = objective_terms(options.objective.name, log_probs, old, advantages, mask, *bounds)
    if options.kl.placement == "loss" and reference is not None:
        from llm_decpomdp.algorithms.learning.kl import kl_divergence

        terms = terms + options.kl.coefficient * kl_divergence(log_probs, reference, mask)
    return terms


def policy_gradient(log_probs: Tensor, advantages: Tensor) -> Tensor:
    """-A_g log pi_gt, (G, T): its gradient is the negative policy gradient (REINFORCE, Williams 1992).

    Assumption: the completions come from the policy that is updated. Advantages are (G,) or (G, T).
    """
    return -expand_tokens(advantages).detach() * log_probs


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


def expand_tokens(advantages: Tensor) -> Tensor:
    """Return advantages, (G,) or (G, T), as (G, 1) or (G, T)."""
    return advantages.unsqueeze(-1) if advantages.dim() == 1 else advantages


def mask_terms(terms: Tensor, mask: Tensor) -> Tensor:
    """Return the terms with 0 on padding, and no gradient there, (G, T)."""
    # Not a product: an infinity on padding times 0 is not a number.
    return terms.masked_fill(mask == 0, 0.0)


TOKEN_METRICS = ("entropy", "kl", "clip_fraction", "mismatch")  # always written, for each agent
CORRECTION_TERMS = ("ratio", "masked", "weight", "square")  # of importance weights


class TokenMetrics:
    """Sums over the tokens of one pass through a batch, by agent and over all processes.

    `several` tells whether the pass is one of several with the same batch, and `corrects` whether groups have the
    terms of importance weights.
    """

    def __init__(
        self, agents: Collection[str], several: bool = False, corrects: bool = False
    ) -> None:
        self.agents = list(agents)
        self._sums: dict[str, dict[str, Tensor]] = {agent: {} for agent in agents}
        self._several, self._corrects = several, corrects
        self._sizes: list[float] = []
        self._own_names: set[str] = set()

    def add(self, agent: str, loss: Tensor, mask: Tensor, terms: Mapping[str, Tensor]) -> None:
        """Add a group: its weighted loss, the mask of its tokens, and the terms of metrics by name.

        Mask and terms are (G, T). A term is not a number where a token has none.
        """
        # Tokens are selected by their indices, which are read once: sums stay on the device until the end.
        places = (mask > 0).flatten().nonzero().squeeze(1)
        parts = {"loss": loss, "tokens": torch.tensor(float(len(places)))}
        self._own_names |= terms.keys() - {*TOKEN_METRICS, *CORRECTION_TERMS}
        for name, values in terms.items():
            # float64, because sums over 100,000 tokens lose digits in the format of the model.
            terms_in_loss = values.detach().flatten()[places].to(torch.float64)
            parts[name] = terms_in_loss.nansum()
            parts[f"tokens/{name}"] = terms_in_loss.isfinite().sum()
        sums = self._sums[agent]
        for name, part in parts.items():
            sums[name] = sums.get(name, 0.0) + part.double()

    def add_joint(self, size: float | None) -> None:
        """Add the effective sample size of a group's joint samples, unless it is not known."""
        if size is not None:
            self._sizes.append(size)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the pass, which `docs/metrics.md` defines; collective over processes."""
        metrics, tokens = {}, 0.0
        # Sums over processes are collective, so all processes need the same names, also those without groups.
        own_names = sorted(set(processes.gather(list(self._own_names))))
        for agent in self.agents:
            own = self._sums[agent]
            values = torch.stack([part.cpu() for part in own.values()]).tolist() if own else []
            # Zeros for an agent without groups in this process, as the totals below are collective.
            sums = defaultdict(float, zip(own, values, strict=True))
            tokens += processes.total(sums["tokens"])
            metrics[f"loss/{agent}"] = processes.total(sums["loss"])
            means = {name: _mean(sums, name) for name in (*TOKEN_METRICS, *own_names)}
            if self._corrects:
                terms = {name: _mean(sums, name) for name in CORRECTION_TERMS}
                means |= {name: terms[name] for name in ("ratio", "masked")}
                means["ess"] = terms["weight"] ** 2 / terms["square"] if terms["square"] else 0.0
            metrics |= {f"{name}/{agent}": mean for name, mean in means.items()}
        metrics["completion_tokens"] = tokens
        if self._several and (groups := processes.total(len(self._sizes))):
            metrics["effective_sample_size"] = processes.total(sum(self._sizes)) / groups
        return metrics


def _mean(sums: Mapping[str, float], name: str) -> float:
    """Return the mean of a term over the tokens of all processes that have it; 0 without such tokens."""
    count = max(processes.total(sums[f"tokens/{name}"]), 1.0)
    return processes.total(sums[name]) / count
