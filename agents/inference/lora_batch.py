"""Rows of one batch, each with another LoRA adapter.

peft computes every adapter separately, for its own rows, which takes twice as long as the base model when few rows
decode. Here the adapters of a layer are stacked into one of the sum of their ranks, and a mask keeps the columns
of each row's adapter: two more products for each layer, for any number of adapters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from peft.tuners.lora import Linear
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils import AuxiliaryTrainingWrapper
from torch import Tensor
from torch.nn.functional import linear

from llm_decpomdp.agents.inference.decoding import limit_threads
from llm_decpomdp.agents.inference.sampler import SetAdapters
from llm_decpomdp.agents.models.weights import has_shards


def can_batch_adapters(model: Any) -> bool:
    """Check whether rows of one batch can have different adapters: all must be products of two matrices."""
    return all(map(is_plain, adapter_layers(model)))


@contextmanager
def batched_adapters(model: Any, adapters: Sequence[str]) -> Iterator[SetAdapters]:
    """Let each row of a batch have its own one of `adapters`, in evaluation without gradients.

    The model is one for which `can_batch_adapters` is true. The context gives the function that sets the rows.
    """
    masks, layers = _ColumnMasks(), adapter_layers(model)
    forwards = [_StackedAdapters(layer, adapters, masks) for layer in layers]
    try:
        for layer, forward in zip(layers, forwards, strict=True):
            layer.forward = forward
        yield masks
    finally:
        for layer in layers:
            del layer.forward


def adapter_layers(model: Any) -> list[Any]:
    """Return the layers of a peft model that hold adapters, of any kind."""
    kinds = (BaseTunerLayer, AuxiliaryTrainingWrapper)
    return [part for part in model.modules() if isinstance(part, kinds)]


def is_plain(layer: Any) -> bool:
    """Check whether the adapters of a layer are products of two matrices, and nothing replaces its `forward`."""
    replaced = "forward" in vars(layer)  # by accelerate, where a model is spread over devices
    if type(layer) is not Linear or layer.fan_in_fan_out or replaced:
        return False
    return not (layer.lora_variant or any(layer.lora_bias.values()) or layer.merged_adapters)


class _ColumnMasks:
    """Masks that keep the columns of each row's own adapter among the stacked ones."""

    def __init__(self) -> None:
        self._names: list[str | None] = []
        self._masks: dict[tuple[Any, ...], Tensor] = {}

    def __call__(self, names: Sequence[str | None]) -> None:
        if names != self._names:
            self._names, self._masks = list(names), {}

    def mask(self, ranks: tuple[tuple[str, int], ...], like: Tensor) -> Tensor:
        """Return 1 for columns of the row's adapter and 0 elsewhere, (N, 1, sum of the ranks)."""
        key = (ranks, like.dtype, like.device)
        if key not in self._masks:
            owners = [name for name, rank in ranks for _ in range(rank)]
            rows = [[name == owner for owner in owners] for name in self._names]
            self._masks[key] = torch.tensor(rows, dtype=like.dtype, device=like.device)[:, None]
        return self._masks[key]


class _StackedAdapters:
    """The forward pass of a linear layer with several adapters."""

    def __init__(self, layer: Any, adapters: Sequence[str], masks: _ColumnMasks) -> None:
        self._layer, self._base, self._column_masks = layer, layer.base_layer, masks
        names = [name for name in adapters if name in layer.lora_A]
        self._ranks = tuple((name, layer.r[name]) for name in names)
        # Shards are whole, and not rounded, while FSDP computes the layer around this one.
        self._in_shards = bool(names) and has_shards(layer.lora_A.parameters())
        if names and not self._in_shards:
            self._stacked = self._stack()

    def _stack(self, dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
        """Return the matrices of all adapters, (ranks, in) and (out, ranks), in a format or in their own."""
        downs, ups = [], []
        for name, _ in self._ranks:
            downs.append(self._layer.lora_A[name].weight.to(dtype))
            ups.append(self._layer.lora_B[name].weight.to(dtype) * self._layer.scaling[name])
        return torch.cat(downs), torch.cat(ups, 1)

    def __call__(self, states: Tensor) -> Tensor:
        base: Tensor = self._base(states)
        if not self._ranks:
            return base
        down, up = self._stack(base.dtype) if self._in_shards else self._stacked
        largest = max(down.numel(), up.numel())
        with limit_threads(states.shape[:-1].numel() * largest, states.device):
            inner = linear(states.to(down.dtype), down)
            inner = inner * self._column_masks.mask(self._ranks, inner)
            return base + linear(inner, up).to(base.dtype)
