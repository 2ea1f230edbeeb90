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

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint, noop_context_fn

from llm_decpomdp.agents.inference.packing import (
    PromptRows,
    Rows,
    dense_mask,
    encode_layout,
    fill_rows,
    pack,
)
from llm_decpomdp.agents.inference.token_log_probs import TokenLogProbs

LOGITS_AT_ONCE = 2**24  # most logits in memory at a time

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
        ids, positions = pack(row, device)
        states = base.get_decoder()(
            input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False
        ).last_hidden_state[0]
        hidden = torch.split(_sources(states, row), size)
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


def unwrap_peft(model: Any) -> Any:
    """Return the transformers model, with the adapters' layers in it."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _sources(states: Tensor, row: Sequence[PromptRows]) -> Tensor:
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
    log_probs: Tensor = TokenLogProbs.apply(logits, tokens, divisor)  # type: ignore[no-untyped-call]
    return log_probs
