"""Weights that lie in shards, one in each process (`torch.distributed.tensor.DTensor`), and whole ones."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def in_shards(tensors: Iterable[Tensor]) -> bool:
    """Check whether any of some tensors lies in shards."""
    return any(map(is_shard, tensors))


def is_shard(tensor: Tensor) -> bool:
    """Check whether a tensor has here but a part of its values."""
    return hasattr(tensor, "full_tensor")  # without importing DTensor, which takes a second


@torch.no_grad()
def whole(tensor: Tensor) -> Tensor:
    """Return a tensor with all of its values: itself, unless it lies in shards.

    Shards are gathered: all processes call this for the same tensors in the same order, and each has all values.
    """
    full: Tensor = tensor.full_tensor() if is_shard(tensor) else tensor  # type: ignore[attr-defined]
    return full


def cut_as(tensor: Tensor, like: Tensor) -> Tensor:
    """Return the part of a whole tensor that belongs here, as `like` is cut; all of it where that is whole.

    Nothing is sent: every process has the whole tensor.
    """
    if not is_shard(like) or is_shard(tensor):
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor), like
    place = tensor.to(like.device)
    return distribute_tensor(place, like.device_mesh, like.placements, src_data_rank=None)
