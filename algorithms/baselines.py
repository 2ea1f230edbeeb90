"""Group baselines: what a return is compared with. Pure functions of returns of shape (..., G)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Returns = NDArray[np.float64]
Baseline = Callable[[Returns], Returns]

SMALLEST_SPREAD = 1e-8
"""Standard deviation below which normalised advantages take a group's returns as equal."""


def mean(returns: Returns) -> Returns:
    """The group's mean return: b_g = (1/G) sum_h r_h.

    The baseline of GRPO (arXiv 2402.03300) and MAGRPO (arXiv 2508.04652). It contains the sample's
    own return, so the expected gradient is (G-1)/G times the one of an independent baseline: a
    smaller step in the same direction.

    Degenerate case: equal returns give advantages of exactly 0, whatever the rounding of the sum.
    """
    low, high = returns.min(-1, keepdims=True), returns.max(-1, keepdims=True)
    average = np.clip(returns.mean(-1, keepdims=True), low, high)
    return np.broadcast_to(average, returns.shape)


BASELINES: Mapping[str, Baseline] = {"mean": mean}
"""Baseline by name."""


def advantages(returns: Returns, baseline: Baseline, *, normalize: bool = False) -> Returns:
    """A_g = r_g - b_g of returns (..., G), over the group's standard deviation if `normalize`.

    The deviation is that of the returns and nothing is centred again, so baselines still differ by
    their shift; baselines that differ by a factor become equal for optimizers that ignore scale.
    Normalised groups without spread have advantages of 0.
    """
    difference = returns - baseline(returns)
    if not normalize:
        return difference
    spread = returns.std(-1, keepdims=True)
    spread = np.where(spread < SMALLEST_SPREAD, np.inf, spread)
    return difference / spread
