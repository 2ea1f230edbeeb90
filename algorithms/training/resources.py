"""Memory and disk: room for the checkpoints of a run, and the remedies where either runs out."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from rich.filesize import decimal

OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Words of torch's errors about memory, where it raises nothing better than a RuntimeError."""

LESS_MEMORY = (
    "To need less, best first: lower group_size (num_generations) or prompts_per_update; lower "
    "max_new_tokens; turn on gradient_checkpointing; train adapters (lora) in place of all weights, or "
    "share one model between the agents; take a smaller model"
)


class OutOfMemory(MemoryError):
    """Memory ran out; the text says where and what to change."""


def memory_ran_out(error: BaseException) -> bool:
    """Check whether an error means that there was not enough memory, of the machine or of a GPU."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in OUT_OF_MEMORY)


def out_of_memory(
    error: BaseException, activity: str, group_size: int, prompts: int
) -> OutOfMemory:
    """Return an error that names the remedies.

    Args:
        error: The error that was raised.
        activity: The work at that time, such as `update 3`.
        group_size: Completions of each prompt.
        prompts: Starts of an update.
    """
    first = next(iter(str(error).splitlines()), "") or type(error).__name__
    return OutOfMemory(
        f"memory ran out in {activity}, with group_size={group_size} and {prompts} prompts an update "
        f"({first}). {LESS_MEMORY}"
    )


def require_room(folder: Path, needed: int, purpose: str) -> None:
    """Check that the disk of `folder`, which must exist, has `needed` bytes left.

    Raises:
        OSError: If it hasn't; names both numbers and the remedies.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(
            f"{purpose} needs {decimal(needed)}, and {decimal(free)} are free on the disk of "
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
    """Add up the bytes of the tensors and texts within a container of containers."""
    if isinstance(state, torch.Tensor):
        return state.nbytes
    if isinstance(state, str):
        return len(state)
    if isinstance(state, Mapping):
        return sum(map(state_bytes, state.values()))
    return sum(map(state_bytes, state)) if isinstance(state, (list, tuple)) else 0
