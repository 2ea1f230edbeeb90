"""Attention of one new token at a time, as fast as a CPU allows.

Heads that share keys become queries of one head. transformers does so too, unless there is no padding: it then
leaves it to torch, whose kernel for CPUs takes five times as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from llm_decpomdp.agents.inference.packed_log_probs import without_peft

NAME = "llm_decpomdp_decoding"


@contextmanager
def decoding(model: Any) -> Iterator[None]:
    """Let a model on a CPU compute with this attention, if it would use `sdpa` otherwise."""
    model = without_peft(model)
    fits = model.config._attn_implementation == "sdpa" and model._supports_attention_backend
    if not fits or model.device.type != "cpu":
        yield
        return
    try:
        model.set_attn_implementation(NAME)
        yield
    finally:
        model.set_attn_implementation("sdpa")


def decoding_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Compute the `sdpa` of transformers, one new token without its detour; (N, new tokens, heads, size)."""
    rows, heads, new, size = query.shape
    by_head = attention_mask is not None and attention_mask.shape[1] > 1
    special = any(options.get(name) is not None for name in ("position_bias", "softcap", "cache"))
    if new > 1 or by_head or special:
        interface: Any = AttentionInterface  # whose constructor has no types
        sdpa = interface()["sdpa"]
        output: tuple[Tensor, None] = sdpa(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
        return output
    query = query.reshape(rows, key.shape[1], -1, size)
    attended = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, scale=scaling
    )
    return attended.reshape(rows, 1, heads, -1), None


AttentionInterface.register(NAME, decoding_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
