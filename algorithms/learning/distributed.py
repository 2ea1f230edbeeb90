"""Several processes that train one team, each on its share of the starts.

`accelerate launch` and `torchrun` start them, `join` makes them one run. In a process that is alone all
functions do the obvious thing, and nothing is sent.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TypeVar

import torch
from torch import distributed

T = TypeVar("T")

logger = logging.getLogger(__name__)

PATIENCE = timedelta(hours=12)
"""How long a process waits for the others: one may have a much longer share of an update than another."""


def join() -> None:
    """Meet the other processes of this launch; nothing happens in one that is alone or has met them.

    Each process on a machine with GPUs gets one of its own.

    Raises:
        RuntimeError: If the machine has fewer GPUs than processes.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or _together():
        return
    if torch.cuda.is_available():
        place, gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if place >= gpus:
            raise RuntimeError(
                f"each process needs a GPU of its own, and the machine has {gpus}: launch at most "
                f"{gpus} on it"
            )
        torch.cuda.set_device(place)
    distributed.init_process_group(timeout=PATIENCE)


def leave() -> None:
    """Part from the other processes, at the end of the program."""
    if _together():
        distributed.destroy_process_group()


def count() -> int:
    """The number of processes."""
    return distributed.get_world_size() if _together() else 1


def rank() -> int:
    """The place of this process, from 0. The first process writes what the run leaves."""
    return distributed.get_rank() if _together() else 0


def warn_of_idle(starts: int) -> None:
    """Say in the log if there are more processes than starts in the largest update."""
    if count() > starts and rank() == 0:
        logger.warning(
            "%d processes share updates of at most %d starts, so some of them always wait: take more starts an "
            "update (prompts_per_update), or fewer processes",
            *(count(), starts),
        )


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


def of_first(value: T) -> T:
    """The value that the first process has, in all of them; none goes on before it got there."""
    values = [value]
    if _together():
        distributed.broadcast_object_list(values, src=0)
    return values[0]


def sum_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Add up the gradients of all processes; a missing one counts as 0, and stays missing if all lack it."""
    if not _together():
        return
    weights = list(parameters)
    found = gather([[weight.grad is not None for weight in weights]])
    for weight, somewhere in zip(weights, map(any, zip(*found, strict=True)), strict=True):
        if somewhere:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
            distributed.all_reduce(weight.grad)


@torch.no_grad()
def copy_first(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Give all processes the weights of the first, so that they begin alike."""
    if _together():
        for parameter in parameters:
            distributed.broadcast(parameter.data, src=0)


def _together() -> bool:
    return distributed.is_available() and distributed.is_initialized()
