"""Matrix products with oneDNN on a CPU: linear layers (`model.fused_kernels`), adapters (also `model.compile`).

torch computes float32 products with MKL. On an AMD EPYC with AVX-512, oneDNN takes 0.78 to 0.93 of the time of
products with weights. Gradients of weights take equally long with both libraries, so torch computes them. torch
already uses oneDNN for bfloat16 products.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op
from torch.nn.functional import linear

_SCHEMA = "(Tensor states, Tensor weight, Tensor? bias) -> Tensor"


# An operator that `torch.compile` calls as it is: inductor would copy a transposed weight first.
@custom_op("llm_decpomdp::onednn_product", mutates_args=(), schema=_SCHEMA)
def onednn_product(states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return x W' + b of states x (L, k), a weight W (n, k) and a bias b (n), by oneDNN."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")
    return product


@onednn_product.register_fake
def _(states: Tensor, weight: Tensor, _: Tensor | None) -> Tensor:
    # `len` would make the number of rows a constant, so that each number of tokens needs code of its own.
    return states.new_empty(states.shape[0], weight.shape[0])


# A constant, because compiled code cannot call these checks.
HAS_ONEDNN: bool = (
    torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
)
"""Whether this torch has the products of oneDNN."""


def multiply(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W' + b of states x (L, k), a weight W (n, k) and a bias b (n), without a graph for gradients."""
    if states.device.type == "cpu" and states.dtype == torch.float32 and HAS_ONEDNN:
        product: Tensor = onednn_product(states, weight, bias)
    else:
        product = linear(states, weight, bias)
    return product


@contextmanager
def fused_products(model: Any) -> Iterator[None]:
    """Let the linear layers with float32 weights on a CPU multiply by oneDNN; others compute as before."""
    fuses = HAS_ONEDNN and next(model.parameters()).device.type == "cpu"
    layers = [layer for layer in model.modules() if _is_replaceable(layer)] if fuses else []
    try:
        for layer in layers:
            # A bound method, because compiled code would be tied to the identity of any other callable.
            layer.forward = MethodType(_forward, layer)
        yield
    finally:
        for layer in layers:
            del layer.forward


def _is_replaceable(layer: Any) -> bool:
    return (
        type(layer) is torch.nn.Linear
        and "forward" not in vars(layer)  # set on layers whose activations are computed twice
        and layer.weight.device.type == "cpu"
        and layer.weight.dtype == torch.float32
    )


def _forward(layer: Any, states: Tensor) -> Tensor:
    if torch.is_autocast_enabled("cpu") or states.dtype != torch.float32:
        output: Tensor = linear(states, layer.weight, layer.bias)
    else:
        output = _Product.apply(states, layer.weight, layer.bias)  # type: ignore[no-untyped-call]
    return output


class _Product(torch.autograd.Function):
    """x W' + b."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(states, weight)
        output: Tensor = onednn_product(states.reshape(-1, states.shape[-1]), weight, bias)
        return output.view(*states.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        states, weight = ctx.saved_tensors
        flat = states.reshape(-1, states.shape[-1])
        grad = grads[0].reshape(-1, len(weight))
        states_grad = weight_grad = bias_grad = None
        if ctx.needs_input_grad[0]:
            states_grad = onednn_product(grad, weight.T, None).view(states.shape)
        if ctx.needs_input_grad[1]:
            weight_grad = grad.T @ flat
        if ctx.needs_input_grad[2]:
            bias_grad = grad.sum(0)
        return states_grad, weight_grad, bias_grad
