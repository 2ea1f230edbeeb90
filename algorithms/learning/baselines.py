"""Group baselines, subtracted from the returns. Pure functions of returns of shape (..., G).

They shift or scale the same returns, and how much of that reaches the weights depends on the
rest of the update:

- Under plain gradient descent all of them take different steps.
- Adam divides out the scale of the gradient: under it `mean` and `leave_one_out` take nearly the same step,
  and so they do if the gradient's norm is clipped. `max` and `none` differ by a shift and stay different.
- Z-scoring (centring again, then dividing by the standard deviation) after the baseline would make all of them
  the same algorithm. Nothing is centred again here: `normalize` divides, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Returns = NDArray[np.float64]
Baseline = Callable[[Returns], Returns]

ROUNDING = 1e-12
"""Rounding error of sums of equal rewards in another order, as a share of the group's largest return."""

SMALLEST_SPREAD = 1e-8
"""Standard deviation below which normalised advantages take a group's returns as equal."""


def mean(returns: Returns) -> Returns:
    """Return the group's mean return: b_g = (1/G) sum_h R_h.

    The baseline of GRPO (arXiv 2402.03300) and MAGRPO (arXiv 2508.04652). It contains the sample's
    own return, so the expected gradient is (G-1)/G times the one of an independent baseline: a
    smaller step in the same direction.

    Degenerate case: equal returns give advantages of 0.
    """
    return np.broadcast_to(returns.mean(-1, keepdims=True), returns.shape)


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

    The baseline of ReMax (arXiv 2310.10505) with the best sample in place of a greedy one. It depends on
    the samples it is subtracted from, so the gradient is biased: mistakes are made less likely, and the best
    sample gains only what they lose.

    Degenerate case: equal returns give advantages of 0.
    """
    return np.broadcast_to(returns.max(-1, keepdims=True), returns.shape)


def none(returns: Returns) -> Returns:
    """No baseline: b_g = 0, the plain REINFORCE estimator (Williams 1992).

    Unbiased, and noisier the further the returns lie from 0: with an offset of all returns every sample is
    made likelier, and only the differences between their rates teach anything.

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


def pool_advantages(
    returns: Returns, baseline: Baseline, size: int, *, normalize: bool = False
) -> Returns:
    """A_g of the n of `size` episodes that reach a turn, (n,): `advantages` if all of them do.

    Episodes that ended earlier have no completion to compare with. If `mean` or `leave_one_out` is the baseline,

        A_g = c (R_g - mean of the n - 1 others),    c = (size - 1)/size under `mean`, and 1 under `leave_one_out`

    and a completion that is alone is compared with 0, the reward of the other episodes after their ends. So the
    baseline does not depend on the completion, and the weight of every turn is c. (With the mean of all n returns
    it would be (n - 1)/n.) Any other baseline is computed from the n returns. With it a completion that is alone
    has an advantage of 0, unless the baseline is `none`.

    Args:
        returns: (n,).
        baseline: Subtracted from the returns.
        size: Number of episodes, at least n.
        normalize: As of `advantages`; a return that is alone has no deviation, and an advantage of 0.
    """
    number = len(returns)
    if number == size:
        return advantages(returns, baseline, normalize=normalize)
    if baseline in (mean, leave_one_out):
        compared = advantages(returns, leave_one_out if number > 1 else none, normalize=normalize)
        return compared * ((size - 1) / size) if baseline is mean else compared
    if number == 1 and baseline is not none:
        return np.zeros(1)
    return advantages(returns, baseline, normalize=normalize)


def advantages(returns: Returns, baseline: Baseline, *, normalize: bool = False) -> Returns:
    """A_g = R_g - b_g of returns (..., G), over the group's standard deviation if `normalize`.

    The deviation is that of the returns and nothing is centred again, so baselines still differ by
    their shift; baselines that differ by a factor become equal for optimizers that ignore scale.
    Normalised groups without spread have advantages of 0, and so have differences that rounding alone
    makes: Adam would take a step of usual length along them.
    """
    difference: Returns = returns - baseline(returns)
    noise = ROUNDING * np.abs(returns).max(-1, keepdims=True)
    difference = np.where(np.abs(difference) <= noise, 0.0, difference)
    if not normalize:
        return difference
    spread = returns.std(-1, keepdims=True)
    spread = np.where(spread < SMALLEST_SPREAD, np.inf, spread)
    return difference / spread
