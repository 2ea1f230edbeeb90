"""Sampling: from the prompts' token ids to sampled ids and their log-probabilities.

Letters: B prompts, S samples of each, N = B * S rows, P prompt tokens, T new tokens, V vocabulary.
Masks: 1 = counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sampling:
    """How completions are drawn.

    Raises:
        ValueError: If a value is out of its range.
    """

    temperature: float = 1.0
    """Divides the logits; 0 takes the most likely token always."""
    top_p: float = 1.0
    """Draw among the most likely tokens that hold this share of the probability; 1 draws among all."""
    top_k: int = 0
    """Draw among this many most likely tokens; 0 draws among all."""
    max_new_tokens: int = 256
    """Longest completion, in tokens, the end-of-sequence token included."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature must be finite and at least 0, got {self.temperature!r}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must lie in (0, 1], got {self.top_p!r}")
        for name, value, least in (
            ("top_k", self.top_k, 0),
            ("max_new_tokens", self.max_new_tokens, 1),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(
                    f"{name} must be a whole number of at least {least}, got {value!r}"
                )

    @property
    def divisor(self) -> float:
        """What logits are divided by: the temperature, or 1 for greedy decoding."""
        return self.temperature or 1.0


@dataclass(frozen=True)
class SampledRow:
    """The tokens of one completion."""

    tokens: tuple[int, ...]
    """With the end-of-sequence token where one was sampled."""
    log_probs: tuple[float, ...]
    """See `token_log_probs`."""
    stopped: bool
    """Whether the last token ends the sequence."""


def token_log_probs(logits: Tensor, tokens: Tensor, sampling: Sampling) -> Tensor:
    """Log-probabilities of `tokens` under the softmax of the tempered logits, in nats and float32.

    The softmax is over the whole vocabulary: what `top_p` and `top_k` cut off isn't renormalised away, so
    that sampler and learner mean the same number.

    Args:
        logits: (..., V).
        tokens: (...).
        sampling: Options, of which the temperature matters.
    """
    tempered = logits.float() / sampling.divisor
    chosen = tempered.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return chosen - tempered.logsumexp(-1)


def draw(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """One token for each row, by inverting the cumulative distribution.

    Args:
        logits: (N, V).
        sampling: Options.
        generator: Lives on the CPU, so that every device gets the same random numbers.

    Returns:
        Token ids and their log-probabilities (see `token_log_probs`), both (N,).
    """
    if sampling.temperature == 0:
        tokens = logits.argmax(-1)
    else:
        kept = truncate(logits.float() / sampling.divisor, sampling)
        cumulative = kept.softmax(-1).cumsum(-1)
        total = cumulative[:, -1:]
        uniform = torch.rand(len(logits), 1, generator=generator).to(logits.device)
        # Strictly below the total: the first entry above the target then has a probability above 0.
        target = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
        tokens = torch.searchsorted(cumulative, target, right=True).squeeze(-1)
        # A parallel sum may not rise everywhere: what was cut off must not be drawn all the same.
        cut = kept.gather(1, tokens.unsqueeze(-1)).squeeze(-1).isinf()
        if cut.any():
            tokens = torch.where(cut, kept.argmax(-1), tokens)
    return tokens, token_log_probs(logits, tokens, sampling)


def truncate(logits: Tensor, sampling: Sampling) -> Tensor:
    """The logits (N, V) with those that `top_k`, and then `top_p`, leave out at minus infinity."""
    if 0 < sampling.top_k < logits.shape[-1]:
        highest, tokens = logits.topk(sampling.top_k)
        logits = torch.full_like(logits, -math.inf).scatter(-1, tokens, highest)
    if sampling.top_p < 1:
        ordered, tokens = logits.sort(descending=True)
        probabilities = ordered.softmax(-1)
        before = probabilities.cumsum(-1) - probabilities
        kept = ordered.masked_fill(before >= sampling.top_p, -math.inf)
        logits = logits.scatter(-1, tokens, kept)
    return logits


def pad_left(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids and mask, both (B, P); masked places hold 0 and are never read."""
    width = max(map(len, prompts))
    ids = [[0] * (width - len(prompt)) + list(prompt) for prompt in prompts]
    mask = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


@torch.no_grad()
def sample(
    model: Any,
    prompts: Sequence[Sequence[int]],
    num_samples: int,
    end_ids: Sequence[int],
    sampling: Sampling,
    generator: torch.Generator,
) -> list[SampledRow]:
    """Draw completions of all prompts together.

    Each prompt goes through the model once; its keys and values are repeated for its samples. Rows leave
    the batch when they end.

    Args:
        model: A transformers model with a head for the next token.
        prompts: B lists of token ids, none empty.
        num_samples: S, at least 1.
        end_ids: The tokens that end a sequence.
        sampling: Options.
        generator: Lives on the CPU.

    Returns:
        N rows: the samples of the first prompt, then those of the second, and so on.
    """
    ids, mask = pad_left(prompts, model.device)  # (B, P)
    positions = (mask.cumsum(1) - 1).clamp(min=0)  # (B, P)
    output = model(
        input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1
    )
    cache = output.past_key_values
    cache.batch_repeat_interleave(num_samples)
    logits, mask, positions = (
        tensor.repeat_interleave(num_samples, 0)
        for tensor in (output.logits[:, -1], mask, positions[:, -1:])
    )  # (N, V), (N, P), (N, 1)
    rows = _Rows(len(logits), sampling.max_new_tokens, torch.tensor(end_ids, device=ids.device))
    while True:
        tokens, log_probs = draw(logits, sampling, generator)  # (N,)
        going = rows.add(tokens, log_probs)
        if not len(going):
            return rows.finish()
        if len(going) < len(tokens):
            cache.batch_select_indices(going)
            tokens, mask, positions = tokens[going], mask[going], positions[going]
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
        positions = positions + 1
        logits = model(
            input_ids=tokens.unsqueeze(1),
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
        ).logits[:, -1]


class _Rows:
    """What was sampled so far, and which rows go on."""

    def __init__(self, count: int, limit: int, end_ids: Tensor) -> None:
        device = end_ids.device
        self._length = 0
        self._alive = torch.arange(count, device=device)  # indices of rows in the batch
        self._limit = limit
        self._end_ids = end_ids.long()
        self._tokens = torch.zeros(count, limit, dtype=torch.long, device=device)
        self._log_probs = torch.zeros(count, limit, device=device)
        self._lengths = torch.zeros(count, dtype=torch.long, device=device)
        self._stopped = torch.zeros(count, dtype=torch.bool, device=device)

    def add(self, tokens: Tensor, log_probs: Tensor) -> Tensor:
        """Record one token of each live row.

        Returns:
            Which of the live rows go on, as indices into `tokens`.
        """
        self._tokens[self._alive, self._length] = tokens
        self._log_probs[self._alive, self._length] = log_probs
        self._length += 1
        self._lengths[self._alive] = self._length
        ended = torch.isin(tokens, self._end_ids)
        self._stopped[self._alive] = ended
        going = (~ended).nonzero().squeeze(1)
        if self._length == self._limit:
            going = going[:0]
        self._alive = self._alive[going]
        return going

    def finish(self) -> list[SampledRow]:
        """All rows, without what lies behind their ends."""
        columns = (self._tokens, self._log_probs, self._lengths, self._stopped)
        return [
            SampledRow(tuple(tokens[:length]), tuple(log_probs[:length]), stopped)
            for tokens, log_probs, length, stopped in zip(*map(Tensor.tolist, columns), strict=True)
        ]
