"""Keys and values of the tokens that a model has seen, in memory that is not copied for each new token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    DynamicLayer,
    DynamicSlidingWindowLayer,
)

ROOM = 64
"""Tokens that are added between two copies into larger memory."""


def growing_cache(model: Any) -> Cache | None:
    """Return an empty cache for `model`, or none if the model keeps something else than keys and values."""
    layers = DynamicCache(config=model.config).layers
    # Windows are a matter of masks: a layer that keeps all tokens serves them too.
    if all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers):
        return Cache(layer_class_to_replicate=GrowingLayer)
    return None


class GrowingLayer(CacheLayerMixin):
    """Keys and values of one layer, (N, heads, tokens, size), in memory with room behind the last token.

    transformers' own layer is concatenated anew for each token, which takes longer than all else on a
    CPU. Rows that leave are replaced by the last ones, so that only those move. For use without gradients.
    """

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
            self.keys = _with_room(self.keys[:, :, :begin], self._length)
            self.values = _with_room(self.values[:, :, :begin], self._length)
        self.keys[:, :, begin : self._length] = key_states
        self.values[:, :, begin : self._length] = value_states
        return self.keys[:, :, : self._length], self.values[:, :, : self._length]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Number of tokens that a mask covers, and the index of the first."""
        return self._length + query_length, 0

    def get_seq_length(self) -> int:
        """Number of tokens."""
        return self._length

    def get_max_length(self) -> int:
        """No limit."""
        return -1

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Make `repeats` rows of each row."""
        self.keys = self.keys[:, :, : self._length].repeat_interleave(repeats, 0)
        self.values = self.values[:, :, : self._length].repeat_interleave(repeats, 0)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep the rows `indices`, in this order; only those whose place changes are copied."""
        rows = (indices != torch.arange(len(indices), device=indices.device)).nonzero()[:, 0]
        for store in (self.keys, self.values):
            store[rows, :, : self._length] = store[indices[rows], :, : self._length]
        self.keys, self.values = self.keys[: len(indices)], self.values[: len(indices)]


def _with_room(states: Tensor, length: int) -> Tensor:
    """Copy `states` into memory for `length` tokens and `ROOM` more."""
    rows, heads, length_before, size = states.shape
    store = states.new_empty(rows, heads, length + ROOM, size)
    store[:, :, :length_before] = states
    return store
