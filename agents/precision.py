"""The number format that a model computes with, beside its float32 weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from llm_decpomdp.naming import unknown

COMPUTE_DTYPES = ("auto", "float32", "bfloat16")


def resolve_compute_dtype(name: str, device: torch.device) -> torch.dtype:
    """The dtype that `compute_dtype` means on `device`.

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


@contextmanager
def weights_in(model: torch.nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """Let the model compute with its weights rounded to `dtype`; the originals are back afterwards."""
    originals = [(weight, weight.data) for weight in model.parameters()]
    try:
        for weight, data in originals:
            weight.data = data.to(dtype)
        yield
    finally:
        for weight, data in originals:
            weight.data = data
