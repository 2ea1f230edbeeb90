"""Fast passes of one new token for each line with a cache that grows (`GrowingSteps` of `sampler.py`).

- Attention: heads that share keys become queries of one head. Without padding, transformers leaves this to
  torch, whose kernel for CPUs takes five times as long.
- Keys and values: memory that is not copied for each new token.
- Threads: torch divides nearly every product among all threads. Sleeping threads (the setting of our commands)
  take some 60 microseconds to wake up: as long as a whole product for a few rows of a small model.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicLayer, DynamicSlidingWindowLayer
from transformers.masking_utils import sdpa_mask

from llm_decpomdp.agents.inference.log_probs import unwrap_peft

NAME = "llm_decpomdp_decoding"

ROOM = 64  # tokens that are added between two copies into larger memory

THREADS_SLEEP = os.environ.get("OMP_WAIT_POLICY", "").lower() == "passive"
"""True if waiting threads sleep; spinning threads start at once."""

FEW = 4_100_000
"""Multiplications of one product below which one thread computes a whole pass, head and attention included."""
# With SmolLM2-135M that is up to 8 rows; on two cores they took 0.73 to 0.88 of the time in bfloat16, and 0.77 to
# 1.05 in float32.


@contextmanager
def decoding(model: Any) -> Iterator[None]:
    """Let a model on a CPU compute with this attention instead of `sdpa`."""
    model = unwrap_peft(model)
    fits = model.config._attn_implementation == "sdpa" and model._supports_attention_backend
    if not fits or model.device.type != "cpu":
        yield
        return
    try:
        model.set_attn_implementation(NAME)
        yield
    finally:
        model.set_attn_implementation("sdpa")


@contextmanager
def whole_head(model: Any) -> Iterator[None]:
    """Let the head of a model read contiguous states."""
    # For states that are cut from longer rows torch makes a batch of products, and copies the weights of the head
    # for each row: on a CPU 57 MB a row for SmolLM2-135M in bfloat16, and 70 times the time.
    head = unwrap_peft(model).get_output_embeddings()
    hook = head.register_forward_pre_hook(lambda _, states: (states[0].contiguous(), *states[1:]))
    try:
        yield
    finally:
        hook.remove()


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
    """Compute the `sdpa` of transformers, (N, new tokens, heads, size), faster for one new token."""
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


def growing_cache(model: Any) -> Cache | None:
    """Return an empty cache for `model`; `None` if the model keeps other states than keys and values."""
    layers = DynamicCache(config=model.config).layers
    # Windows are a matter of masks: a layer that keeps all tokens serves them too.
    if all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers):
        return Cache(layer_class_to_replicate=GrowingLayer)
    return None


def attention_span(config: Any) -> float:
    """Return the number of tokens that the attention of every layer sees."""
    config = config.get_text_config()
    spans = (getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size"))
    return min((span for span in spans if span), default=float("inf"))


def takes_prepared_masks(model: Any) -> bool:
    """Check whether all layers of a model take one mask of tokens that count, (N, 1, 1, tokens)."""
    model = unwrap_peft(model)
    by_torch = model.config._attn_implementation in ("sdpa", NAME)
    # Windows are made of masks that transformers prepares.
    unlimited = attention_span(model.config) == float("inf")
    return bool(by_torch and model._supports_attention_backend and unlimited)


def cache_argument(model: Any) -> str:
    """Return the name of the argument of `forward` for a cache: `cache` from transformers 5.24 on."""
    kind: Any = type(unwrap_peft(model))
    return _cache_argument(kind)


@cache  # reading a signature takes as long as several small products
def _cache_argument(kind: Any) -> str:
    return "cache" if "cache" in signature(kind.forward).parameters else "past_key_values"


class GrowingLayer(CacheLayerMixin):
    """Keys and values of one layer, (N, heads, tokens, size), in memory with room behind the last token.

    For use without gradients.
    """

    # The layer of transformers is concatenated anew for each token, which takes longer than all else on a CPU.

    keys: Tensor
    values: Tensor

    def __init__(self, **_: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._length = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Begin without tokens, in the format of the first ones."""
        self.dtype, self.device = key_states.dtype, key_states.device
        self.keys, self.values = key_states[:, :, :0], value_states[:, :, :0]
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Add tokens; return the keys and values of all."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        begin, self._length = self._length, self._length + key_states.shape[2]
        if self._length > self.keys.shape[2]:
            self.keys = _reserve_memory(self.keys[:, :, :begin], self._length)
            self.values = _reserve_memory(self.values[:, :, :begin], self._length)
        self.keys[:, :, begin : self._length] = key_states
        self.values[:, :, begin : self._length] = value_states
        return self.keys[:, :, : self._length], self.values[:, :, : self._length]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of tokens that a mask covers, and the index of the first."""
        return self._length + query_length, 0

    def get_seq_length(self) -> int:
        """Return the number of tokens."""
        return self._length

    def get_max_length(self) -> int:
        """Return -1: no limit."""
        return -1

    def states(self) -> tuple[Tensor, Tensor]:
        """Return the keys and values of all tokens."""
        return self.keys[:, :, : self._length], self.values[:, :, : self._length]

    def append(self, others: Sequence[GrowingLayer], lines: Sequence[int] | None = None) -> None:
        """Add the rows of other layers; the last tokens of all rows then stand in one column.

        `lines` has the index of the row that each new row copies; by default all rows are kept.
        """
        keys, values = zip(*(layer.states() for layer in (self, *others)), strict=True)
        self._length = max(states.shape[2] for states in keys)
        lines = range(sum(map(len, keys))) if lines is None else lines
        self.keys, self.values = (
            _join_rows(parts, lines, self._length) for parts in (keys, values)
        )

    def keep_last(self, tokens: int) -> None:
        """Keep the last columns alone."""
        begin, self._length = self._length - tokens, tokens
        self.keys, self.values = self.keys[:, :, begin:], self.values[:, :, begin:]

    def batch_select_indices(self, indices: Sequence[int]) -> None:
        """Keep the rows `indices`, in this order; only those whose place changes are copied, from behind them."""
        for row, source in enumerate(indices):
            if row != source:
                for store in (self.keys, self.values):
                    store[row, :, : self._length] = store[source, :, : self._length]
        self.keys, self.values = self.keys[: len(indices)], self.values[: len(indices)]


def _reserve_memory(states: Tensor, length: int) -> Tensor:
    """Copy `states` into memory for `length` tokens and `ROOM` more."""
    rows, heads, length_before, size = states.shape
    store = states.new_empty(rows, heads, length + ROOM, size)
    store[:, :, :length_before] = states
    return store


def _join_rows(parts: Sequence[Tensor], lines: Sequence[int], length: int) -> Tensor:
    """Copy rows of all parts, (N, heads, tokens, size); rows of several parts into memory with room for more."""
    if len(parts) == 1:
        return parts[0][list(lines)]
    _, heads, _, size = parts[0].shape
    # Zeros, because the values of masked columns are multiplied by 0.
    store = parts[0].new_zeros(len(lines), heads, length + ROOM, size)
    rows, first = torch.tensor(lines, device=store.device), 0
    for states in parts:
        places = ((rows >= first) & (rows < first + len(states))).nonzero()[:, 0]
        store[places, :, length - states.shape[2] : length] = states[rows[places] - first]
        first += len(states)
    return store


@contextmanager
def limit_threads(multiplications: int, device: torch.device) -> Iterator[None]:
    """Compute products of a number of multiplications with one thread on a CPU, if that is faster."""
    threads = torch.get_num_threads()
    if not THREADS_SLEEP or device.type != "cpu" or threads == 1 or multiplications >= FEW:
        yield
        return
    # The number is the process's: another thread of Python that uses torch for the first time meanwhile keeps it.
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def product_size(model: torch.nn.Module) -> int:
    """Return the number of weights in an average product of a transformers model's layers."""
    config = model.config.get_text_config(decoder=True)  # type: ignore[union-attr, operator]
    weights = model.num_parameters(exclude_embeddings=True)  # type: ignore[operator]
    return int(weights) // (7 * int(config.num_hidden_layers))  # a layer has about seven products
