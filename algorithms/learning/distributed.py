"""Data-parallel training: several processes train one team, each on its shard of the starts.

`accelerate launch` and `torchrun` start them, `initialize` makes them one run. In a single process nothing is
sent: the world size is 1, the shard is everything, a broadcast returns its value.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import distributed

from llm_decpomdp.agents.models.weights import is_shard

T = TypeVar("T")

logger = logging.getLogger(__name__)


def initialize(timeout_minutes: float) -> None:
    """Initialize torch.distributed under torchrun or accelerate; without a launcher, or twice, do nothing.

    Each process on a machine with GPUs gets one of its own. A process waits at most `timeout_minutes` for the
    others; then torch ends it.

    Raises:
        RuntimeError: If the machine has fewer GPUs than processes.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or _is_initialized():
        return
    gpu: dict[str, Any] = {}
    if torch.cuda.is_available():
        local_rank, gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if local_rank >= gpus:
            raise RuntimeError(
                f"each process needs a GPU of its own, and the machine has {gpus}: launch at most "
                f"{gpus} on it"
            )
        torch.cuda.set_device(local_rank)
        # Objects and metrics are sent on the CPU. Without the device, NCCL guesses it from the rank.
        gpu = {"backend": "cpu:gloo,cuda:nccl", "device_id": torch.device("cuda", local_rank)}
    distributed.init_process_group(timeout=timedelta(minutes=timeout_minutes), **gpu)


def shutdown() -> None:
    """Destroy the process group, at the end of the program."""
    if _is_initialized():
        distributed.destroy_process_group()


def world_size() -> int:
    """Number of processes."""
    return distributed.get_world_size() if _is_initialized() else 1


def rank() -> int:
    """Index of this process, from 0. Process 0 writes the run's files."""
    return distributed.get_rank() if _is_initialized() else 0


def warn_of_idle(parts: int, what: str = "starts") -> None:
    """Warn if there are more processes than parts (starts, or rollout batches) in the largest update."""
    if world_size() > parts and rank() == 0:
        logger.warning(
            "%d processes share updates of at most %d %s, so some of them always wait: take more starts an "
            "update (train_batch_size), or fewer processes",
            *(world_size(), parts, what),
        )


def shard(items: Sequence[T]) -> list[T]:
    """Return the items of this process: every `world_size()`-th one, from `rank()` on."""
    return list(items[rank() :: world_size()])


def gather(items: Sequence[T]) -> list[T]:
    """Collect the items of all processes, in the order that they had before `shard`."""
    if not _is_initialized():
        return list(items)
    parts: list[Sequence[T]] = [[] for _ in range(world_size())]
    distributed.all_gather_object(parts, list(items))
    return _interleave(parts)


def gather_to_first(items: Sequence[T]) -> list[T]:
    """Collect the items of all processes in the first one, in the order of `gather`; the others get none."""
    if not _is_initialized():
        return list(items)
    parts: list[Sequence[T]] = [[] for _ in range(world_size())]
    distributed.gather_object(list(items), parts if rank() == 0 else None)
    return _interleave(parts)


def _interleave(parts: Sequence[Sequence[T]]) -> list[T]:
    """Undo `shard`: take an item of each part in turn."""
    longest = max(map(len, parts))
    return [part[index] for index in range(longest) for part in parts if index < len(part)]


def compute_on_first(compute: Callable[[], T]) -> T:
    """Compute in the first process alone, and return the result in all; they wait for it."""
    return broadcast(compute() if rank() == 0 else None)  # type: ignore[return-value]


def total(value: float) -> float:
    """Sum a number over all processes."""
    return sum(gather([value]))


def broadcast(value: T) -> T:
    """Return the value of process 0 in all processes; a barrier until process 0 calls it."""
    values = [value]
    if _is_initialized():
        distributed.broadcast_object_list(values, src=0)
    return values[0]


def sum_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Sum the gradients over all processes; a missing one counts as 0, and stays missing if all lack it."""
    if not _is_initialized():
        return
    # Gradients of shards are sums already: each backward pass has reduced them.
    weights = [weight for weight in parameters if not is_shard(weight)]
    # All processes have to call all_reduce for the same weights, or they wait for each other forever.
    present = gather([[weight.grad is not None for weight in weights]])
    for weight, anywhere in zip(weights, map(any, zip(*present, strict=True)), strict=True):
        if anywhere:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
            distributed.all_reduce(weight.grad)


@torch.no_grad()
def broadcast_parameters(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Copy the weights of process 0 to all processes, so that they begin alike; shards do already."""
    if _is_initialized():
        for parameter in parameters:
            if not is_shard(parameter):
                distributed.broadcast(parameter.data, src=0)


def _is_initialized() -> bool:
    # Builds of torch without distributed have no `is_initialized`.
    return distributed.is_available() and distributed.is_initialized()
