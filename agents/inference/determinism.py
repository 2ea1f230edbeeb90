"""Deterministic kernels of torch on GPUs, so that equal seeds give equal bytes there too.

On a CPU the kernels that models use here are deterministic. On CUDA some add their terms in the order in which
threads finish. `torch.use_deterministic_algorithms` replaces most of them, such as `index_add_` and the gradient
of `gather`, and raises an error for others. This module replaces those that our code calls: cumulative sums and
the gradient of attention with a mask.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
"""Environment variable of cuBLAS, which reads it when a process multiplies matrices for the first time."""

WORKSPACE_SIZES = (":4096:8", ":16:8")
"""Its values with which products are deterministic (`torch.use_deterministic_algorithms`); the first is faster."""

BLOCK = 512  # values of a cumulative sum that one matrix product adds up


@contextmanager
def deterministic() -> Iterator[None]:
    """Call `use_deterministic_kernels` for a block of code."""
    before = torch.are_deterministic_algorithms_enabled()
    kernels: Any = torch.backends.cuda  # its functions have no types
    efficient, cudnn = kernels.mem_efficient_sdp_enabled(), kernels.cudnn_sdp_enabled()
    use_deterministic_kernels()
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        kernels.enable_mem_efficient_sdp(efficient)
        kernels.enable_cudnn_sdp(cudnn)


def use_deterministic_kernels() -> None:
    """Let torch use deterministic kernels alone, and raise a `RuntimeError` at one that it cannot replace.

    The gradient of memory-efficient attention and of cuDNN's is not deterministic. Without them attention with a
    mask takes the plain kernel, whose memory grows with the square of the length.

    Raises:
        ValueError: If a variable of cuBLAS has a value with which its products are not deterministic.
    """
    size = os.environ.setdefault(WORKSPACE, WORKSPACE_SIZES[0])
    if size not in WORKSPACE_SIZES:
        raise ValueError(
            f"learner.deterministic: products of matrices are not deterministic with {WORKSPACE}={size}. Set it "
            f"to {WORKSPACE_SIZES[0]}, or remove the variable"
        )
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)


def cumulative_sum(values: Tensor) -> Tensor:
    """Return the sums of the values (..., N) up to each place of the last dimension.

    With deterministic kernels on CUDA the sum is one of matrix products, because `torch.cumsum` has no
    deterministic kernel for floating-point numbers there.
    """
    if values.is_cuda and torch.are_deterministic_algorithms_enabled():
        return sum_in_blocks(values)
    return values.cumsum(-1)


def sum_in_blocks(values: Tensor) -> Tensor:
    """Return the cumulative sum (..., N) of floating-point numbers by products with triangular matrices."""
    size = values.shape[-1]
    padded = torch.nn.functional.pad(values, (0, -size % BLOCK))
    blocks = padded.reshape(*values.shape[:-1], -1, BLOCK)
    within = blocks @ _ones_up_to(BLOCK, values)
    sums = within[..., -1]
    before = sums @ _ones_up_to(sums.shape[-1], values) - sums
    return (within + before.unsqueeze(-1)).flatten(-2)[..., :size]


def _ones_up_to(size: int, like: Tensor) -> Tensor:
    return like.new_ones(size, size).triu()
