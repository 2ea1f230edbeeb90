"""Several processes that train one team, each on its share of the starts.

The functions do nothing in a process that is alone. `accelerate launch` starts the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import torch
from torch import distributed

T = TypeVar("T")


def count() -> int:
    """The number of processes."""
    return distributed.get_world_size() if _together() else 1


def rank() -> int:
    """The place of this process, from 0."""
    return distributed.get_rank() if _together() else 0


def share(items: Sequence[T]) -> list[T]:
    """The items that this process is to work on: every `count()`-th one."""
    return list(items[rank() :: count()])


def gather(items: Sequence[T]) -> list[T]:
    """The items of all processes, in the order in which `share` dealt them out."""
    if not _together():
        return list(items)
    parts: list[Sequence[T]] = [[] for _ in range(count())]
    distributed.all_gather_object(parts, list(items))
    longest = max(map(len, parts))
    return [part[index] for index in range(longest) for part in parts if index < len(part)]


def total(value: float) -> float:
    """The sum of a number over all processes."""
    return sum(gather([value]))


def sum_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Add up the gradients of all processes; a missing one counts as 0."""
    if not _together():
        return
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        distributed.all_reduce(parameter.grad)


def _together() -> bool:
    return distributed.is_available() and distributed.is_initialized()
