"""The processors of this machine: memory, and two rates that are measured in about a second."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from llm_decpomdp.benchmarks.doctor import memory
from llm_decpomdp.benchmarks.planning.devices import CPU, Device

ROUNDS, BUDGET = 20, 0.3
"""Most rounds of a measurement, and the seconds after which none begins."""
ROWS, WIDTH = 256, 1024
"""A product of (ROWS, WIDTH) by (WIDTH, WIDTH): rows like the tokens of a packed pass."""
COPY_BYTES = 2**27
"""Too many for caches."""


def measured() -> Device:
    """Measure the processors with torch's present number of threads.

    `flops` and `single` are the rates of a matrix product, `bandwidth` that of a copy, which reads and writes: the
    best of a few rounds, in processor time, as others may compute too. They are those of an idle machine.
    """
    import torch

    from llm_decpomdp.agents.models.precision import resolve_compute_dtype

    source = torch.ones(COPY_BYTES // 4)
    target = torch.empty_like(source)
    copy = _seconds(lambda: target.copy_(source))
    bandwidth = 2 * COPY_BYTES / copy / 1e9
    threads = torch.get_num_threads()
    dtype = resolve_compute_dtype("auto", torch.device("cpu"))
    return Device(
        CPU,
        f"measured now, {threads} thread{'s' * (threads > 1)}",
        memory=memory.total() * memory.GIB / 1e9,
        bandwidth=bandwidth,
        flops=_product_rate(torch.bfloat16),
        single=_product_rate(torch.float32),
        link=bandwidth,
        network=bandwidth,
        node=1,
        cores=_cores(),
        dtype=str(dtype).removeprefix("torch."),
    )


def _product_rate(dtype: Any) -> float:
    """Return the TFLOP/s of a matrix product."""
    import torch

    rows, weights = torch.ones(ROWS, WIDTH, dtype=dtype), torch.ones(WIDTH, WIDTH, dtype=dtype)
    return 2 * ROWS * WIDTH * WIDTH / _seconds(lambda: rows @ weights) / 1e12


def _seconds(work: Callable[[], object]) -> float:
    """Return the processor time of each of torch's threads, of the best round."""
    import torch

    times: list[float] = []
    while len(times) < ROUNDS and sum(times) < BUDGET:
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times) / torch.get_num_threads()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
