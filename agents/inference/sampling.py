"""Sampling: tokens drawn from logits, and their log-probabilities.

Letters: N rows, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from llm_decpomdp.agents.inference.options import Sampling


@dataclass(frozen=True)
class RowOptions:
    """The sampling options of each row, as tensors on the device of the logits."""

    divisor: Tensor  # (N, 1)
    greedy: Tensor  # (N,)
    top_p: Tensor  # (N, 1), infinite where nothing is cut
    top_k: Tensor  # (N, 1), V or more where nothing is cut
    most: int
    """The largest `top_k`; 0 if a row has none."""
    cuts: bool
    """True if any row has a `top_p` or `top_k`."""

    @classmethod
    def from_samplings(cls, samplings: Sequence[Sampling], device: torch.device) -> RowOptions:
        """Return the options of one `Sampling` for each row."""

        def column(values: list[float]) -> Tensor:
            return torch.tensor(values, device=device).unsqueeze(1)

        top_k = [s.top_k or math.inf for s in samplings]
        return cls(
            column([s.divisor for s in samplings]),
            torch.tensor([s.temperature == 0 for s in samplings], device=device),
            column([s.top_p if s.top_p < 1 else math.inf for s in samplings]),
            column(top_k),
            int(max(top_k)) if math.isfinite(max(top_k)) else 0,
            any(s.top_p < 1 or s.top_k for s in samplings),
        )

    def select(self, rows: Tensor) -> RowOptions:
        """Return the options of the rows with these indices."""
        return replace(
            self,
            divisor=self.divisor[rows],
            greedy=self.greedy[rows],
            top_p=self.top_p[rows],
            top_k=self.top_k[rows],
        )


def token_log_probs(logits: Tensor, tokens: Tensor, divisor: float | Tensor) -> Tensor:
    """Log-probabilities of `tokens` under the softmax of the tempered logits, in nats and float32.

    The softmax is over the whole vocabulary: what `top_p` and `top_k` cut off isn't renormalised away, so
    that sampler and learner mean the same number.

    Args:
        logits: (..., V).
        tokens: (...).
        divisor: The temperature, or 1 for greedy decoding; a number, or (..., 1).
    """
    tempered = logits.float() / divisor
    selected = tempered.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return selected - tempered.logsumexp(-1)


def draw(logits: Tensor, options: RowOptions, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one token for each row, by inverting the cumulative distribution.

    Args:
        logits: (N, V).
        options: The rows' options.
        uniform: Random numbers in [0, 1), (N,).

    Returns:
        Token ids and their log-probabilities (see `token_log_probs`), both (N,).
    """
    weights = logits.float() / options.divisor
    if options.cuts:
        weights = truncate(weights, options)
    cumulative = weights.softmax(-1).cumsum(-1)
    total = cumulative[:, -1:]
    # Strictly below the total: the first entry above the target then has a probability above 0.
    below = torch.nextafter(total, torch.zeros_like(total))
    target = torch.minimum(uniform.unsqueeze(1) * total, below)
    # Past the last entry only if logits are not numbers, which the log-probability then says.
    tokens = torch.searchsorted(cumulative, target, right=True).clamp(max=logits.shape[-1] - 1)
    # A parallel sum may not rise everywhere: what was cut off must not be drawn all the same.
    excluded = weights.gather(1, tokens).isinf()
    if excluded.any():
        tokens = torch.where(excluded, weights.argmax(-1, keepdim=True), tokens)
    if options.greedy.any():
        tokens = torch.where(options.greedy.unsqueeze(1), logits.argmax(-1, keepdim=True), tokens)
    return tokens.squeeze(1), token_log_probs(logits, tokens.squeeze(1), options.divisor)


def truncate(logits: Tensor, options: RowOptions) -> Tensor:
    """Set the tempered logits (N, V) that `top_k`, and then `top_p`, leave out to minus infinity."""
    size = logits.shape[-1]
    ordered, tokens = logits.topk(min(options.most or size, size))
    rank = torch.arange(ordered.shape[-1], device=logits.device)
    ordered = ordered.masked_fill(rank >= options.top_k, -math.inf)
    probabilities = ordered.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    nucleus = ordered.masked_fill(before >= options.top_p, -math.inf)
    return torch.full_like(logits, -math.inf).scatter(-1, tokens, nucleus)
