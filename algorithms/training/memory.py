"""Memory that ran out, and the remedies."""

from __future__ import annotations

import torch

SIGNS = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Words of torch's errors about memory, where it raises nothing better than a RuntimeError."""

ADVICE = (
    "To need less, best first: lower group_size (num_generations) or prompts_per_update; lower "
    "max_new_tokens; turn on gradient_checkpointing; train adapters (lora) in place of all weights, or "
    "share one model between the agents; take a smaller model"
)


class OutOfMemory(MemoryError):
    """Memory ran out; the text says where and what to change."""


def ran_out(error: BaseException) -> bool:
    """Check whether an error means that there was not enough memory, of the machine or of a GPU."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def explain(error: BaseException, activity: str, group_size: int, prompts: int) -> OutOfMemory:
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
        f"({first}). {ADVICE}"
    )
