"""Kernels of a learner's passes that read and write less memory (`model.fused_kernels`).

Attention computes only the scores that tokens need (packed_attention.py). The product of an adapter is added
inside that of the frozen weights. On a CPU oneDNN multiplies float32 matrices (products.py). Log-probabilities and
gradients are equal up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch
from torch import Tensor

from llm_decpomdp.agents.inference.log_probs import unwrap_peft
from llm_decpomdp.agents.inference.lora_batch import adapter_layers, is_plain
from llm_decpomdp.agents.inference.packed_attention import NAME
from llm_decpomdp.agents.inference.products import fused_products, multiply


@contextmanager
def fused_kernels(model: Any) -> Iterator[None]:
    """Let a model with attention `sdpa` compute with these kernels; rows have layouts in the place of masks."""
    base = unwrap_peft(model)
    base.set_attn_implementation(NAME)
    try:
        with fused_products(base), fused_adapters(model):
            yield
    finally:
        base.set_attn_implementation("sdpa")


def can_fuse_kernels(model: Any) -> bool:
    """Check whether a model computes attention by torch, through the interface of transformers."""
    base = unwrap_peft(model)
    return bool(base.config._attn_implementation == "sdpa" and base._supports_attention_backend)


@contextmanager
def fused_adapters(model: Any) -> Iterator[None]:
    """Let the layers with one plain adapter add its product to that of the frozen weights.

    The values and gradients are those of peft up to rounding. Other layers compute as before.
    """
    layers = [layer for layer in adapter_layers(model) if _is_fusable(layer)]
    try:
        for layer in layers:
            (name,) = _active_adapters(layer)
            layer.fused = (
                layer.lora_A[name].weight,
                layer.lora_B[name].weight,
                layer.scaling[name],
            )
            # A method of the layer, since compiled code depends on other callables themselves.
            layer.forward = MethodType(_forward_fused, layer)
        yield
    finally:
        for layer in layers:
            del layer.forward, layer.fused


def _is_fusable(layer: Any) -> bool:
    """Check whether a layer is the sum of one frozen product and one adapter."""
    if not is_plain(layer) or type(layer.base_layer) is not torch.nn.Linear:
        return False
    frozen = not any(weight.requires_grad for weight in layer.base_layer.parameters())
    return len(_active_adapters(layer)) == 1 and frozen and not layer.disable_adapters


def _active_adapters(layer: Any) -> list[str]:
    return [name for name in layer.active_adapters if name in layer.lora_A]


def _forward_fused(layer: Any, states: Tensor) -> Tensor:
    base = layer.base_layer
    dtype = states.dtype
    if torch.is_autocast_enabled(states.device.type):
        dtype = torch.get_autocast_dtype(states.device.type)
    output: Tensor = _AdaptedProduct.apply(  # type: ignore[no-untyped-call]
        states.to(dtype), base.weight.to(dtype), base.bias, *layer.fused
    )
    return output


class _AdaptedProduct(torch.autograd.Function):
    """x W' + b + s (x A') B' of frozen W and b."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        down: Tensor,
        up: Tensor,
        scaling: float,
    ) -> Tensor:
        with torch.autocast(states.device.type, enabled=False):
            flat = states.flatten(0, -2)
            down, up = down.to(states.dtype), up.to(states.dtype)
            inner = flat @ down.T
            output = multiply(flat, weight, None if bias is None else bias.to(states.dtype))
            output.addmm_(inner, up.T, alpha=scaling)
        ctx.save_for_backward(states, weight, down, up, inner)
        ctx.scaling = scaling
        return output.view(*states.shape[:-1], -1)

    @staticmethod
    def backward(
        ctx: Any, *grads: Tensor
    ) -> tuple[Tensor | None, None, None, Tensor, Tensor, None]:
        states, weight, down, up, inner = ctx.saved_tensors
        with torch.autocast(states.device.type, enabled=False):
            flat, grad = states.flatten(0, -2), grads[0].flatten(0, -2)
            inner_grad = (grad @ up) * ctx.scaling
            down_grad = (inner_grad.T @ flat).float()
            up_grad = (grad.T @ inner).float() * ctx.scaling
            states_grad = None
            if ctx.needs_input_grad[0]:
                states_grad = multiply(grad, weight.T).addmm_(inner_grad, down).view(states.shape)
        return states_grad, None, None, down_grad, up_grad, None
