"""The disk: room for the checkpoints of a run, checked before they are written."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch


def require_room(folder: Path, needed: int, purpose: str) -> None:
    """Check that the disk of `folder`, which must exist, has `needed` bytes left.

    Raises:
        OSError: If it hasn't; names both numbers and the remedies.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(
            f"{purpose} needs {readable(needed)}, and {readable(free)} are free on the disk of "
            f"{folder}: free some, choose a folder on another disk, lower keep_checkpoints, or train "
            "adapters (lora), whose checkpoints are small"
        )


def checkpoint_bytes(parameters: Iterable[torch.nn.Parameter]) -> int:
    """Estimate the size of a checkpoint: the weights, with float32 moments and, of 16-bit ones, a float32 copy."""
    return sum(
        parameter.numel() * (parameter.element_size() + (8 if parameter.element_size() > 2 else 12))
        for parameter in parameters
        if parameter.requires_grad
    )


def state_bytes(state: Any) -> int:
    """Add up the bytes of the tensors within a container of containers."""
    if isinstance(state, torch.Tensor):
        return state.nbytes
    if isinstance(state, Mapping):
        return sum(map(state_bytes, state.values()))
    return sum(map(state_bytes, state)) if isinstance(state, (list, tuple)) else 0


def readable(size: int) -> str:
    """Write a number of bytes in words, such as `1.5 GB`."""
    for unit, bytes_of_unit in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= bytes_of_unit:
            return f"{size / bytes_of_unit:.1f} {unit}"
    return f"{size} bytes"
