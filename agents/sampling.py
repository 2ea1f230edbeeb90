"""Sampling from a causal language model, many prompts and many samples at once.

Letters: B prompts, S samples of each, N = B * S rows still running, P prompt tokens, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache

Forward = Callable[..., Any]
"""A causal language model called with the keyword arguments of a transformers model."""


@dataclass(frozen=True)
class Sampling:
    """How completions are drawn."""

    temperature: float = 1.0
    """Divides the logits; 0 takes the likeliest token."""
    top_p: float = 1.0
    """Keep the likeliest tokens that together have this probability; 1 keeps all."""
    top_k: int = 0
    """Keep this many of the likeliest tokens; 0 keeps all."""
    max_new_tokens: int = 256
    """Longest completion, in tokens."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature must be finite and at least 0, got {self.temperature!r}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must lie in (0, 1], got {self.top_p!r}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be at least 0 (0 keeps all tokens), got {self.top_k!r}")
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, got {self.max_new_tokens!r}")

    @property
    def divisor(self) -> float:
        """What logits are divided by; 1 for greedy decoding."""
        return self.temperature or 1.0


@dataclass
class Sample:
    """One sampled completion as tokens."""

    tokens: list[int]
    """The end-of-sequence token included, when it was sampled."""
    log_probs: list[float]
    """Log-probability of each token in nats, under the full softmax at the sampling temperature."""
    stopped: bool = False
    """Whether it ended with an end-of-sequence token."""


def sample(
    forward: Forward,
    config: Any,
    prompts: Sequence[Sequence[int]],
    num_samples: int,
    sampling: Sampling,
    stop: Collection[int],
    generator: torch.Generator,
) -> list[list[Sample]]:
    """Draw `num_samples` completions of each prompt.

    All prompts run through the model once, padded on the left, and their cache is repeated for the samples;
    rows that end leave the batch. `top_k` and `top_p` cut what is drawn from, not the log-probabilities.

    Args:
        forward: The model.
        config: Its configuration, for the cache.
        prompts: B lists of token ids, none empty.
        num_samples: Samples of each prompt (S).
        sampling: How to draw.
        stop: Ids of the tokens that end a completion.
        generator: Random numbers, on the model's device.
    """
    device = generator.device
    tokens, mask = _pad_left(prompts, device)  # (B, P) each
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    cache = DynamicCache(config=config)
    output = forward(
        input_ids=tokens,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    logits = output.logits[:, -1].repeat_interleave(num_samples, 0)  # (N, V)
    cache.batch_repeat_interleave(num_samples)
    mask = mask.repeat_interleave(num_samples, 0)
    position = positions[:, -1:].repeat_interleave(num_samples, 0) + 1  # (N, 1)
    samples = [Sample([], []) for _ in range(len(prompts) * num_samples)]
    running = list(samples)
    for count in range(1, sampling.max_new_tokens + 1):
        drawn, log_probs = draw(logits, sampling, generator)
        going = []
        for row, (one, token, log_prob) in enumerate(
            zip(running, drawn.tolist(), log_probs.tolist(), strict=True)
        ):
            one.tokens.append(token)
            one.log_probs.append(log_prob)
            one.stopped = token in stop
            if not one.stopped:
                going.append(row)
        if not going or count == sampling.max_new_tokens:
            break
        if len(going) < len(running):
            rows = torch.tensor(going, device=device)
            running = [running[row] for row in going]
            drawn, mask, position = drawn[rows], mask[rows], position[rows]
            cache.batch_select_indices(rows)
        mask = torch.cat([mask, mask.new_ones(len(running), 1)], 1)
        output = forward(
            input_ids=drawn[:, None],
            attention_mask=mask,
            position_ids=position,
            past_key_values=cache,
            use_cache=True,
        )
        logits, position = output.logits[:, -1], position + 1
    return [samples[i : i + num_samples] for i in range(0, len(samples), num_samples)]


def draw(
    logits: torch.Tensor, sampling: Sampling, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """One token for each row of logits (N, V), and its log-probability: (N,) each."""
    logits = logits.float() / sampling.divisor
    if sampling.temperature == 0:
        tokens = logits.argmax(-1)
    else:
        # The inverse of the cumulative distribution: several times faster than torch.multinomial here.
        cumulative = torch.softmax(truncate(logits, sampling), -1).cumsum(-1)
        uniform = torch.rand(len(logits), 1, generator=generator, device=logits.device)
        target = uniform * cumulative[:, -1:]
        tokens = torch.searchsorted(cumulative, target, right=True)[:, 0]
        # Rounding can point past the last token that has any probability.
        last = (cumulative < cumulative[:, -1:]).sum(-1)
        tokens = torch.minimum(tokens, last)
    log_probs = logits.gather(1, tokens[:, None])[:, 0] - logits.logsumexp(-1)
    return tokens, log_probs


def truncate(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Logits (N, V) with minus infinity outside the tokens that `top_k` and `top_p` keep."""
    if 0 < sampling.top_k < logits.shape[-1]:
        smallest = logits.topk(sampling.top_k, -1).values[:, -1:]
        logits = logits.masked_fill(logits < smallest, -torch.inf)
    if sampling.top_p < 1:
        ordered, order = logits.sort(-1, descending=True)
        probabilities = ordered.softmax(-1)
        before = probabilities.cumsum(-1) - probabilities
        dropped = (before >= sampling.top_p).scatter(-1, order, before >= sampling.top_p)
        logits = logits.masked_fill(dropped, -torch.inf)
    return logits


def _pad_left(
    prompts: Sequence[Sequence[int]], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask (1 where there is a token), both (B, P)."""
    longest = max(map(len, prompts))
    tokens = torch.zeros(len(prompts), longest, dtype=torch.long)
    mask = torch.zeros_like(tokens)
    for row, prompt in enumerate(prompts):
        tokens[row, longest - len(prompt) :] = torch.tensor(prompt)
        mask[row, longest - len(prompt) :] = 1
    return tokens.to(device), mask.to(device)
