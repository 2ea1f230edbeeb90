"""Values of completions, of shape (G,), from their returns beside K choices of partners, of shape (G, K).

The mean is what a completion is worth beside partners as they are now. The others are optimistic: partners will
learn, so that an answer is worth what it earns beside good ones. An average punishes what succeeds only together,
such as a call of a helper that is still bad, and a team then settles for what is safe (relative
overgeneralisation; Panait, Tuyls and Luke, JMLR 2008, on lenient learners).

Optimism misleads where rewards are noisy: the best of K is then the luckiest. Under `annealed` it fades.
"""

from __future__ import annotations

import numpy as np

from llm_decpomdp.algorithms.learning.baselines import Returns

AGGREGATIONS = ("mean", "max", "quantile", "annealed")


def progress(updates: int, total: int | None) -> float:
    """Return the p of an update after so many complete ones: 0 in the first of a run, 1 in its last."""
    return 1.0 if total is None or total < 2 else min(1.0, updates / (total - 1))


def aggregate(
    values: Returns, aggregation: str, *, quantile: float | None = None, progress: float = 1.0
) -> Returns:
    """Return the value of each completion, (G,).

    - `mean`: v_g = (1/K) sum_k R_gk, unbiased. A mean and not a sum: the scale of the gradient does not depend on
      the number of agents.
    - `max`: v_g = max_k R_gk, as if the team could try each answer beside K partners and keep the best.
    - `quantile`: the quantile tau of R_g1 .. R_gK, linear between two.
    - `annealed`: mean + (1 - p) (max - mean), from `max` in the first update (p = 0) to `mean` in the last.

    Degenerate case: with K = 1 all are the return itself.

    Args:
        values: (G, K).
        aggregation: One of `AGGREGATIONS`.
        quantile: tau, 0 to 1.
        progress: p, from 0 in the first update of the run to 1 in the last.
    """
    average: Returns = values.mean(-1)
    best: Returns = values.max(-1)
    if aggregation == "quantile":
        assert quantile is not None
        return np.asarray(np.quantile(values, quantile, axis=-1))
    if aggregation == "annealed":
        return average + (1 - progress) * (best - average)
    return best if aggregation == "max" else average
