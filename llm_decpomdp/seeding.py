"""Named, independent random streams; the library never draws from a global generator."""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return a generator that depends on `seed` and `names` alone, independent between different names.

    Args:
        seed: The run's seed, at least 0.
        names: Purpose of the stream, such as `("evaluation", 3)`.

    Raises:
        ValueError: If `seed` is negative.
    """
    if seed < 0:
        raise ValueError(f"seed must be at least 0, got {seed}")
    # CRC-32 and not `hash`, which differs between processes. Seeds of all runs so far depend on it.
    keys = [zlib.crc32(name.encode()) if isinstance(name, str) else name for name in names]
    return np.random.default_rng(np.random.SeedSequence([seed, *keys]))
