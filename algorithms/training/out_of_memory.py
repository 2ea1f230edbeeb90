"""The error of a run whose memory runs out: it names what to change."""

from __future__ import annotations

import torch

# Torch raises a plain RuntimeError with these words on a CPU and in cuBLAS.
OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")

LESS_MEMORY = (
    "To need less, best first: lower group_size or train_batch_size; lower "
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


def explain(error: BaseException, activity: str, group_size: int, prompts: int) -> OutOfMemory:
    """Return an error that names the remedies, for an activity such as `update 3` with so many prompts."""
    # Only the first line: torch appends a stack trace.
    first = next(iter(str(error).splitlines()), "") or type(error).__name__
    return OutOfMemory(
        f"memory ran out in {activity}, with group_size={group_size} and {prompts} prompts an update "
        f"({first}). {LESS_MEMORY}"
    )
