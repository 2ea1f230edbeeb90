"""Log-probabilities of the completions of prompts, by one forward pass that shares each prompt.

All completions follow their prompt in one row. Each token sees the prompt and the tokens before it in its own
completion, and the positions of every completion begin at the prompt's end:

```
row        p p p  a a  b b b         mask of b's last token   1 1 1  0 0  1 1 1
position   0 1 2  3 4  3 4 5
```

A row may hold several prompts with their completions, one after the other; their tokens do not see each other.
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
"""Longest row, unless one completion alone is longer: attention with a dense mask costs the square of it."""

LOGITS_AT_ONCE = 2**24  # most logits in memory at a time

HEAD_ROWS = 16  # rows of logits between two passes over memory, about 3 MB with 49,152 tokens

Rows = Sequence[Sequence[int]]

PromptRows = tuple[Sequence[int], Rows]
"""Token ids of a prompt, at least one, and of its completions, each at least one."""

Layout = tuple[tuple[int, tuple[int, ...]], ...]
"""For each prompt of a row its number of tokens, and those of its completions."""

Contexts = Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]
"""Makes the context of the first computation of the logits, and that of the second."""


def packed_log_probs(
    model: Any,
    prompt: Sequence[int],
    rows: Rows,
    divisor: float,
    contexts: Contexts = noop_context_fn,
) -> Tensor:
    """Return `log_probs_of_prompts` of one prompt and its completions `rows`, (K,), float32."""
    return log_probs_of_prompts(model, [(prompt, rows)], divisor, contexts)


def log_probs_of_prompts(
    model: Any,
    prompts: Sequence[PromptRows],
    divisor: float,
    contexts: Contexts = noop_context_fn,
    tiled: bool = False,
) -> Tensor:
    """Return log-probabilities of all tokens of completions, one completion after the other, (K,), float32.

    Args:
        model: A transformers model with a head for the next token, or a peft model around one.
        prompts: Prompts with their completions.
        divisor: Divides the logits.
        contexts: Around the first computation of the logits, and around the second.
        tiled: Whether the model's attention reads layouts of rows (packed_attention.py) and not masks.
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
    for row in fill_rows(prompts):
        # The last token of a completion predicts none.
        layout = tuple((len(ids), tuple(len(text) - 1 for text in rows)) for ids, rows in row)
        mask = encode_layout(layout) if tiled else dense_mask(layout, device, dtype)
        ids, positions = _pack(row, device)
        states = base.get_decoder()(
            input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False
        ).last_hidden_state[0]
        hidden = torch.split(_predicting_states(states, row), size)
        tokens = torch.tensor(
            [token for _, rows in row for text in rows for token in text], device=device
        )
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


def fill_rows(prompts: Sequence[PromptRows]) -> Iterator[list[PromptRows]]:
    """Fill rows of at most `ROW_TOKENS` tokens, in order; a prompt is repeated if its completions are divided."""
    row: list[PromptRows] = []
    size = 0
    for prompt, completions in prompts:
        for part in split_rows(completions, ROW_TOKENS - len(prompt)):
            length = len(prompt) + sum(map(len, part))
            if row and size + length > ROW_TOKENS:
                yield row
                row, size = [], 0
            row.append((prompt, part))
            size += length
    yield row


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


def _predicting_states(states: Tensor, row: Sequence[PromptRows]) -> Tensor:
    """Select the states of a row, (L, size), that predict the completions' tokens, (K, size)."""
    # The prompt's last state predicts the first token of each completion. It is not selected by an index: several
    # threads would add its gradients in the order in which they arrive.
    selected: list[Tensor] = []
    start = 0
    for prompt, completions in row:
        lengths = [len(completion) - 1 for completion in completions]
        begin, end = start + len(prompt), start + len(prompt) + sum(lengths)
        first, rest = states[begin - 1 : begin], states[begin:end]
        for part in torch.split(rest, lengths):
            selected += (first, part)
        start = end
    return torch.cat(selected)


def _pack(row: Sequence[PromptRows], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return token ids and positions of a row, both (1, L)."""
    ids: list[int] = []
    positions: list[int] = []
    for prompt, completions in row:
        start = len(prompt)
        ids += prompt
        positions += range(start)
        for completion in completions:
            ids += completion[:-1]
            positions += range(start, start + len(completion) - 1)
    return torch.tensor([ids], device=device), torch.tensor([positions], device=device)


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


def dense_mask(layout: Layout, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return the mask that is added to all scores of a row, (1, 1, L, L)."""
    hidden = ~visible_tokens(layout, device)
    mask = torch.zeros(hidden.shape, dtype=dtype, device=device)
    return mask.masked_fill_(hidden, torch.finfo(dtype).min)[None, None]


def encode_layout(layout: Layout) -> Tensor:
    """Return a layout in the place of a mask, (1, 1, 1, numbers)."""
    # transformers passes masks of 4 dimensions on as they are.
    numbers = [n for prompt, lengths in layout for n in (prompt, len(lengths), *lengths)]
    return torch.tensor(numbers)[None, None, None]


def visible_tokens(layout: Layout, device: torch.device) -> Tensor:
    """Return whether each token sees each other one, (L, L)."""
    prompts, completions = [], []
    number = 0
    for index, (prompt, lengths) in enumerate(layout):
        prompts += [index] * (prompt + sum(lengths))
        completions += [-1] * prompt
        for length in lengths:
            completions += [number] * length
            number += 1
    prompt_of, completion_of = torch.tensor([prompts, completions], device=device)
    same_text = completion_of.unsqueeze(1) == completion_of
    same_prompt = prompt_of.unsqueeze(1) == prompt_of
    visible: Tensor = (same_prompt & (same_text | (completion_of == -1))).tril()
    return visible
