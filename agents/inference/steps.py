"""Passes of one new token for each line of a batch, after the pass over the prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from llm_decpomdp.agents.inference.decoding import (
    cache_argument,
    limit_threads,
    product_size,
    takes_prepared_masks,
)
from llm_decpomdp.agents.inference.log_probs import unwrap_peft


@dataclass(frozen=True)
class Prefilled:
    """A batch whose prompts have passed through the model; P tokens of the longest prompt."""

    model: Any
    cache: Any  # keys and values of the prompts, a row for each line of the batch
    mask: Tensor  # 1 for tokens of prompts that count, (N, P)
    positions: Tensor  # positions of the last tokens of the prompts, (N, 1)
    limit: int  # maximum number of passes
    set_adapters: Callable[[], None]  # sets the adapters of the lines for the next pass
    padded: bool  # whether any prompt is shorter than P


def forward_with(model: Any, cache: Any) -> Callable[..., Any]:
    """Return the pass of a model with a cache, which gives the logits of the last column alone."""
    return partial(model, **{cache_argument(model): cache}, use_cache=True, logits_to_keep=1)


class GrowingSteps:
    """Passes of one new token for each line, with a cache that grows."""

    def __init__(self, begin: Prefilled) -> None:
        self._forward, self._cache = forward_with(begin.model, begin.cache), begin.cache
        self._positions, self._padded = begin.positions, begin.padded
        self._prepares_masks = takes_prepared_masks(begin.model)
        self._mask = self._prepare(begin.mask)
        self._set_adapters = begin.set_adapters
        self._weights, self._device = product_size(unwrap_peft(begin.model)), begin.model.device

    def select(self, lines: Sequence[int], columns: int | None = None) -> None:
        """Keep these lines of the batch, in this order; of their columns the last ones, or all."""
        self._cache.batch_select_indices(lines)
        self._mask, self._positions = self._mask[lines], self._positions[lines]
        if columns is not None:
            self._mask = self._mask[..., -columns:]
            for layer in self._cache.layers:
                layer.keep_last(columns)

    def append(self, other: Prefilled) -> None:
        """Add the lines of another batch; the last tokens of all lines then stand in one column."""
        for layer, added in zip(self._cache.layers, other.cache.layers, strict=True):
            layer.append(added)
        masks = (self._mask, self._prepare(other.mask))
        width = max(mask.shape[-1] for mask in masks)
        self._mask = torch.cat([pad(mask, (width - mask.shape[-1], 0)) for mask in masks])
        self._positions = torch.cat([self._positions, other.positions])

    def _prepare(self, mask: Tensor) -> Tensor:
        return mask.bool()[:, None, None] if self._prepares_masks else mask

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return the logits (N, V) behind one more token of each line (N,)."""
        self._mask = torch.cat([self._mask, torch.ones_like(self._mask[..., :1])], -1)
        self._positions = self._positions + 1
        self._set_adapters()
        with limit_threads(len(tokens) * self._weights, self._device):
            # transformers looks for padding in masks that it prepares, which waits for a GPU.
            out = self._forward(
                input_ids=tokens.unsqueeze(1),
                attention_mask=self._mask if self._padded else None,
                position_ids=self._positions,
            )
        logits: Tensor = out.logits[:, -1]
        return logits
