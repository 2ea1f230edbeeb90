"""Rows of one batch, each with another LoRA adapter.

peft computes every adapter separately, for its own rows, which takes twice as long as the base model when few rows
decode. Here the adapters of a layer are stacked into one of the sum of their ranks, and a mask keeps the columns
of each row's adapter: two more products for each layer, for any number of adapters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch
from peft.tuners.lora import Linear
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils import AuxiliaryTrainingWrapper
from torch import Tensor
from torch.nn.functional import linear

from llm_decpomdp.agents.inference.decoding import limit_threads
from llm_decpomdp.agents.inference.prefill import SetAdapters


def can_batch_adapters(model: Any) -> bool:
    """Check whether rows of one batch can have different adapters: all must be products of two matrices."""
    return all(map(is_plain, adapter_layers(model)))


@contextmanager
def batched_adapters(model: Any, adapters: Sequence[str]) -> Iterator[SetAdapters]:
    """Let each row of a batch have its own one of `adapters`, in evaluation without gradients.

    The model is one for which `can_batch_adapters` is true. The context gives the function that sets the rows.
    """
    layers = adapter_layers(model)
    forwards = [_StackedAdapters(layer, adapters) for layer in layers]
    try:
        for layer, forward in zip(layers, forwards, strict=True):
            layer.stacked = forward
            # A method of the layer, since compiled code depends on other callables themselves.
            layer.forward = MethodType(_forward_stacked, layer)
        yield _ColumnMasks(forwards)
    finally:
        for layer in layers:
            del layer.forward, layer.stacked


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

    def __init__(self, forwards: Sequence[_StackedAdapters]) -> None:
        self._forwards = [forward for forward in forwards if forward.ranks]
        self._names: list[str | None] = []

    def __call__(self, names: Sequence[str | None]) -> None:
        if names == self._names:
            return
        self._names = list(names)
        masks: dict[tuple[Any, ...], Tensor] = {}
        for forward in self._forwards:
            weight = forward.weight
            key = (forward.ranks, weight.dtype, weight.device)
            if key not in masks:
                masks[key] = self._mask(forward.ranks).to(weight.device, weight.dtype)
            forward.mask = masks[key]

    def _mask(self, ranks: tuple[tuple[str, int], ...]) -> Tensor:
        """Return true for columns of the row's adapter, (N, 1, sum of the ranks)."""
        owners = [name for name, rank in ranks for _ in range(rank)]
        return torch.tensor([[[name == owner for owner in owners]] for name in self._names])


def _forward_stacked(layer: Any, states: Tensor) -> Tensor:
    output: Tensor = layer.stacked(states)
    return output


class _StackedAdapters:
    """The forward pass of a linear layer with several adapters."""

    mask: Tensor
    """1 for columns of the row's adapter and 0 elsewhere, (N, 1, sum of the ranks)."""

    def __init__(self, layer: Any, adapters: Sequence[str]) -> None:
        self._layer, self._base = layer, layer.base_layer
        names = [name for name in adapters if name in layer.lora_A]
        self.ranks = tuple((name, layer.r[name]) for name in names)
        # Shards, of torch's DTensor, are whole, and not rounded, while FSDP computes the layer around this one.
        weights = [layer.lora_A[name].weight for name in names]
        self._in_shards = any(hasattr(weight, "full_tensor") for weight in weights)
        if names and not self._in_shards:
            self._stacked = self._stack()

    @property
    def weight(self) -> Tensor:
        """A weight of an adapter, with the device of all, and without shards their number format."""
        name, _ = self.ranks[0]
        weight: Tensor = self._layer.lora_A[name].weight
        return weight

    def _stack(self, dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
        """Return the matrices of all adapters, (ranks, in) and (out, ranks), in a format or in their own."""
        downs, ups = [], []
        for name, _ in self.ranks:
            downs.append(self._layer.lora_A[name].weight.to(dtype))
            ups.append(self._layer.lora_B[name].weight.to(dtype) * self._layer.scaling[name])
        return torch.cat(downs), torch.cat(ups, 1)

    def __call__(self, states: Tensor) -> Tensor:
        base: Tensor = self._base(states)
        if not self.ranks:
            return base
        down, up = self._stack(base.dtype) if self._in_shards else self._stacked
        if torch.compiler.is_compiling():  # compiled code cannot set a number of threads
            return self._add(base, states, down, up)
        largest = max(down.numel(), up.numel())
        with limit_threads(states.shape[:-1].numel() * largest, states.device):
            return self._add(base, states, down, up)

    def _add(self, base: Tensor, states: Tensor, down: Tensor, up: Tensor) -> Tensor:
        inner = linear(states.to(down.dtype), down)
        inner = inner * self.mask.to(inner.dtype)
        return base + linear(inner, up).to(base.dtype)
