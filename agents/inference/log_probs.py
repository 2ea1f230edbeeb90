"""Log-probabilities of the completions of one prompt, by one forward pass that shares the prompt.

All completions follow their prompt in one row. Each token sees the prompt and the tokens before it in its own
completion, and the positions of every completion begin at the prompt's end:

```
row        p p p  a a  b b b         mask of b's last token   1 1 1  0 0  1 1 1
position   0 1 2  3 4  3 4 5
```

There is no padding. Only the logits of a few tokens are in memory at once: the backward pass computes all others
again.

Letters: G completions, P prompt tokens, L tokens in the row, K scored tokens (of all completions), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint, noop_context_fn

ROW_TOKENS = 4096
"""Longest row, unless one completion alone is longer: attention costs the square of it."""

LOGITS_AT_ONCE = 2**24  # most logits in memory at a time

Rows = Sequence[Sequence[int]]

Contexts = Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]
"""Makes the context of the first computation of the logits, and that of the second."""


def packed_log_probs(
    model: Any,
    prompt: Sequence[int],
    rows: Rows,
    divisor: float,
    contexts: Contexts = noop_context_fn,
) -> Tensor:
    """Return log-probabilities of all tokens of `rows`, one row after the other, (K,), float32.

    Args:
        model: A transformers model with a head for the next token, or a peft model around one.
        prompt: Token ids, at least one.
        rows: Token ids of the completions, each at least one.
        divisor: Divides the logits.
        contexts: Around the first computation of the logits, and around the second.
    """
    base, device = unwrap_peft(model), model.device
    config = base.config.get_text_config()
    # Gemma 2 bounds its logits behind its head.
    cap = getattr(config, "final_logit_softcapping", None)
    score = partial(_head_log_probs, base.get_output_embeddings(), divisor=divisor, cap=cap)
    autocast = torch.is_autocast_enabled(device.type)
    dtype = torch.get_autocast_dtype(device.type) if autocast else model.dtype
    size = max(1, LOGITS_AT_ONCE // config.vocab_size)
    options: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": False}
    parts: list[Tensor] = []
    for part in split_rows(rows, ROW_TOKENS - len(prompt)):
        ids, positions, mask = _pack(prompt, part, device, dtype)
        states = base.get_decoder()(
            input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False
        ).last_hidden_state[0]
        hidden = torch.split(_sources(states, len(prompt), part), size)
        tokens = torch.tensor([token for row in part for token in row], device=device)
        for chunk, targets in zip(hidden, torch.split(tokens, size), strict=True):
            # The logits of one chunk fit into memory, so the first ones are kept.
            parts.append(
                checkpoint(score, chunk, targets, context_fn=contexts, **options)
                if parts
                else score(chunk, targets)
            )
    return torch.cat(parts)


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


def unwrap_peft(model: Any) -> Any:
    """Return the transformers model, with the adapters' layers in it."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def split_rows(rows: Rows, room: int) -> Iterator[Rows]:
    """Split the rows, in order, into parts of at most `room` tokens or of one row."""
    part: list[Sequence[int]] = []
    size = 0
    for row in rows:
        if part and size + len(row) > room:
            yield part
            part, size = [], 0
        part.append(row)
        size += len(row)
    yield part


def _sources(states: Tensor, start: int, rows: Rows) -> Tensor:
    """Select the states of a row, (L, size), that predict the completions' tokens, (K, size)."""
    # The prompt's last state predicts the first token of each completion. It is not selected by an index: several
    # threads would add its gradients in the order in which they arrive.
    first, rest = states[start - 1 : start], states[start:]
    parts = torch.split(rest, [len(row) - 1 for row in rows])
    return torch.cat([state for part in parts for state in (first, part)])


def _pack(
    prompt: Sequence[int], rows: Rows, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Return token ids and positions, both (1, L), and the mask that is added to attention, (1, 1, L, L)."""
    start = len(prompt)
    ids, positions, owners = list(prompt), list(range(start)), [-1] * start
    for owner, row in enumerate(rows):
        length = len(row) - 1  # the last token predicts none
        ids += row[:-1]
        positions += range(start, start + length)
        owners += [owner] * length
    owner_of = torch.tensor(owners, device=device)
    sees = (owner_of.unsqueeze(1) == owner_of) | (owner_of == -1)
    hidden = ~sees.tril()
    mask = torch.zeros(hidden.shape, dtype=dtype, device=device)
    mask.masked_fill_(hidden, torch.finfo(dtype).min)
    return (
        torch.tensor([ids], device=device),
        torch.tensor([positions], device=device),
        mask[None, None],
    )


def _head_log_probs(
    head: Callable[[Tensor], Tensor],
    hidden: Tensor,
    tokens: Tensor,
    divisor: float,
    cap: float | None,
) -> Tensor:
    logits = head(hidden)
    if cap:
        logits = torch.tanh(logits / cap) * cap
    log_probs: Tensor = _TokenLogProbs.apply(logits, tokens, divisor)  # type: ignore[no-untyped-call]
    return log_probs


class _TokenLogProbs(torch.autograd.Function):
    """`token_log_probs` that keeps only the logits (K, V) for its gradient, which is the same to the bit."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, tokens: Tensor, divisor: float) -> Tensor:
        ctx.divisor = divisor
        tempered = logits.float() / divisor if divisor != 1 else logits.float()
        normalizer = tempered.logsumexp(-1)
        ctx.save_for_backward(logits, tokens, normalizer)
        return tempered.gather(-1, tokens.unsqueeze(-1)).squeeze(-1) - normalizer

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        logits, tokens, normalizer = ctx.saved_tensors
        tempered = logits.float() / ctx.divisor if ctx.divisor != 1 else logits
        # grad * (1 at the token - probability), in one tensor.
        gradient = (tempered - normalizer.unsqueeze(-1)).exp_().mul_(0.0 - grad.unsqueeze(-1))
        place = tokens.unsqueeze(-1)
        gradient.scatter_(-1, place, gradient.gather(-1, place) + grad.unsqueeze(-1))
        if ctx.divisor != 1:
            gradient.div_(ctx.divisor)
        return gradient.to(logits.dtype), None, None


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
