"""The baselines by name; `mean` is in `advantages.py`.

All baselines shift or scale the same returns. How much of that reaches the weights depends on the optimizer:

- Plain gradient descent takes a different step with each of them.
- Adam divides by the scale of the gradient, so `mean` and `leave_one_out` take nearly the same step; so they do
  if the gradient's norm is clipped. `max` and `none` differ by a shift and stay different.
- Z-scoring after the baseline (centering again, then dividing) would make all of them the same algorithm.
  Therefore `normalize` divides, and centers nothing again.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from llm_decpomdp.algorithms.learning.advantages import Baseline, Returns, mean


def leave_one_out(returns: Returns) -> Returns:
    """Return the mean return of the others: b_g = (1/(G-1)) sum_{h != g} R_h.

    The baseline of RLOO (Kool et al. 2019; Ahmadian et al. 2024, arXiv 2402.14740). It does not contain the
    sample's own return, so the gradient is unbiased; advantages are G/(G-1) times those of `mean`.

    Degenerate case: equal returns give advantages of 0.

    Raises:
        ValueError: If there is one sample, and so no other.
    """
    size = returns.shape[-1]
    if size < 2:
        raise ValueError(
            f"leave_one_out compares a sample with the others of its group and needs at least 2, got {size}; "
            "use the baseline 'none'"
        )
    means: Returns = (returns.sum(-1, keepdims=True) - returns) / (size - 1)
    return means


def maximum(returns: Returns) -> Returns:
    """Return the group's best return: b_g = max_h R_h, so that no advantage is above 0.

    The baseline of ReMax (arXiv 2310.10505), with the best sample instead of a greedy one. It depends on the
    samples it is subtracted from, so the gradient is biased: all but the best samples become less likely, and
    the best sample gains only the probability that they lose.

    Degenerate case: equal returns give advantages of 0.
    """
    return np.broadcast_to(returns.max(-1, keepdims=True), returns.shape)


def none(returns: Returns) -> Returns:
    """No baseline: b_g = 0, the plain REINFORCE estimator (Williams 1992).

    Unbiased, and noisier the further the returns are from 0: with an offset of all returns, every sample becomes
    more likely, and only the differences between these increases carry information.

    Degenerate case: equal returns still move the weights, unless they are 0.
    """
    return np.zeros_like(returns)


BASELINES: Mapping[str, Baseline] = {
    "mean": mean,
    "leave_one_out": leave_one_out,
    "max": maximum,
    "none": none,
}
"""Baseline by name."""
