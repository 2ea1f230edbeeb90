"""Number of CPU threads for a product of matrices.

torch divides nearly every product among all threads. Those that sleep between products, as our commands have them
do, take some 60 microseconds to wake up: as long as all of a product for a few rows of a small model.

The number of threads is the process's: a thread of Python that uses torch for the first time meanwhile keeps what
it finds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

THREADS_SLEEP = os.environ.get("OMP_WAIT_POLICY", "").lower() == "passive"
"""True if threads sleep while they wait; those that spin start at once."""

FEW = 4_100_000
"""Multiplications of one product below which one thread computes a whole pass, head and attention included.

With SmolLM2-135M that is up to 8 rows; on two cores they took 0.73 to 0.88 of the time in bfloat16,
and 0.77 to 1.05 in float32.
"""


@contextmanager
def threads_for(multiplications: int, device: torch.device) -> Iterator[None]:
    """Compute with one thread where several are not worth their wake-up.

    Args:
        multiplications: Those of each product.
        device: Where it is computed; only a CPU has such threads.
    """
    threads = torch.get_num_threads()
    if not THREADS_SLEEP or device.type != "cpu" or threads == 1 or multiplications >= FEW:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def product_size(model: torch.nn.Module) -> int:
    """Weights in an average product of a transformers model's layers, of which each has about seven."""
    config = model.config.get_text_config(decoder=True)  # type: ignore[union-attr, operator]
    weights = model.num_parameters(exclude_embeddings=True)  # type: ignore[operator]
    return int(weights) // (7 * int(config.num_hidden_layers))
