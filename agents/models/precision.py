"""The number format that a model computes with, beside its float32 weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

from llm_decpomdp.agents.models.options import COMPUTE_DTYPES
from llm_decpomdp.validation import unknown


def resolve_compute_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the dtype that `compute_dtype` means on `device`.

    Raises:
        ValueError: If the name is unknown.
    """
    if name not in COMPUTE_DTYPES:
        raise ValueError(unknown("compute_dtype", name, COMPUTE_DTYPES))
    if name == "auto":
        name = "bfloat16" if _fast_with_bfloat16(device) else "float32"
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def _fast_with_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    # Not in every version of torch, and processors without the units take longer than in float32.
    probes = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return device.type == "cpu" and any(
        hasattr(torch.cpu, probe) and bool(getattr(torch.cpu, probe)()) for probe in probes
    )


def weights_in(model: torch.nn.Module, dtype: torch.dtype) -> AbstractContextManager[None]:
    """Let the model compute with its weights rounded to `dtype`; the originals are back afterwards."""
    return weights_as(model, lambda _, data: data.to(dtype))


@contextmanager
def weights_as(
    model: torch.nn.Module, other: Callable[[str, torch.Tensor], torch.Tensor]
) -> Iterator[None]:
    """Let the model compute with other weights; the originals are back afterwards.

    Args:
        model: The model.
        other: Gives the weight to compute with, from the name and the value of the model's own.
    """
    originals = [(name, weight, weight.data) for name, weight in model.named_parameters()]
    try:
        for name, weight, data in originals:
            weight.data = other(name, data)
        yield
    finally:
        for _, weight, data in originals:
            weight.data = data
