"""Log-probabilities of tokens from logits, and those of completions from padded rows and from plain passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from llm_decpomdp.agents.inference.packing import Rows

HEAD_ROWS = 16  # rows of logits between two passes over memory, about 3 MB with 49,152 tokens


def padded_log_probs(model: Any, prompt: Sequence[int], rows: Rows, divisor: float) -> Tensor:
    """Return `packed_log_probs` from a batch of prompts with their completions, padded on the right."""
    width = max(map(len, rows))
    lengths = torch.tensor([len(row) for row in rows], device=model.device)
    padded = [[*prompt, *row, *[0] * (width - len(row))] for row in rows]
    ids = torch.tensor(padded, device=model.device)  # (G, P + T)
    places = torch.arange(ids.shape[1], device=model.device)
    mask = (places < len(prompt) + lengths.unsqueeze(1)).long()
    logits = model(
        input_ids=ids[:, :-1], attention_mask=mask[:, :-1], use_cache=False, logits_to_keep=width
    ).logits  # (G, T, V)
    log_probs = token_log_probs(logits, ids[:, len(prompt) :], divisor)
    return log_probs[mask[:, len(prompt) :].bool()]


def plain_log_probs(model: Any, prompt: Sequence[int], rows: Rows, divisor: float) -> Tensor:
    """Return `packed_log_probs` from one pass for each row, without cache, packing or padding."""
    parts: list[Tensor] = []
    for row in rows:
        ids = torch.tensor([[*prompt, *row]], device=model.device)  # (1, P + T)
        logits = model(input_ids=ids[:, :-1], use_cache=False, logits_to_keep=len(row)).logits
        # Models that do not know `logits_to_keep` return the logits of all tokens.
        parts.append(token_log_probs(logits[0, -len(row) :], ids[0, len(prompt) :], divisor))
    return torch.cat(parts)


class TokenLogProbs(torch.autograd.Function):
    """`token_log_probs` that keeps only the logits (K, V) for its gradient, which is the same to the bit."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, tokens: Tensor, divisor: float) -> Tensor:
        """Return the log-probabilities, (K,)."""
        ctx.divisor = divisor
        selected: list[Tensor] = []
        normalizers: list[Tensor] = []
        for part, targets in zip(_in_parts(logits), _in_parts(tokens), strict=True):
            tempered = part.float() / divisor if divisor != 1 else part.float()
            normalizers.append(tempered.logsumexp(-1))
            selected.append(tempered.gather(-1, targets.unsqueeze(-1)).squeeze(-1))
        normalizer = torch.cat(normalizers)
        ctx.save_for_backward(logits, tokens, normalizer)
        return torch.cat(selected) - normalizer

    @staticmethod
    def backward(ctx: Any, grads: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient of the logits, (K, V)."""
        logits, tokens, normalizer = ctx.saved_tensors
        gradients = torch.empty_like(logits)
        columns = (logits, tokens.unsqueeze(-1), normalizer.unsqueeze(-1), grads.unsqueeze(-1))
        parts = zip(*map(_in_parts, (gradients, *columns)), strict=True)
        for gradient, part, place, normal, grad in parts:
            tempered = part.float() / ctx.divisor if ctx.divisor != 1 else part
            # grad * (1 at the token - probability), in one tensor.
            scores = (tempered - normal).exp_().mul_(0.0 - grad)
            scores.scatter_(-1, place, scores.gather(-1, place) + grad)
            if ctx.divisor != 1:
                scores.div_(ctx.divisor)
            gradient.copy_(scores)
        return gradients, None, None


def _in_parts(values: Tensor) -> Sequence[Tensor]:
    """Return parts of values (K, ...) whose logits stay in the cache of a CPU; on a GPU all of them."""
    # Equal parts, since torch may divide the sum over a single row among threads.
    return values.chunk(len(values) // HEAD_ROWS or 1) if values.device.type == "cpu" else [values]


def token_log_probs(logits: Tensor, tokens: Tensor, divisor: float | Tensor) -> Tensor:
    """Return log-probabilities of `tokens` under the softmax of the tempered logits, in nats and float32.

    The softmax is over the whole vocabulary, also with `top_p` and `top_k`, so that sampler and learner agree.

    Args:
        logits: (..., V).
        tokens: (...).
        divisor: The temperature, or 1 for greedy decoding; a number, or (..., 1).
    """
    tempered = logits.float() / divisor
    selected = tempered.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return selected - tempered.logsumexp(-1)
