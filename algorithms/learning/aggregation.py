"""Values of completions from their returns with several choices of partners (`joint_aggregation`)."""

from __future__ import annotations

import numpy as np

from llm_decpomdp.algorithms.learning.advantages import Returns


def aggregate(
    values: Returns, aggregation: str, *, quantile: float | None = None, progress: float = 1.0
) -> Returns:
    """Return the value of each completion, (G,), from its returns with K choices of partners, (G, K).

    - `mean`: v_g = (1/K) sum_k R_gk, unbiased. A mean and not a sum: the scale of the gradient does not depend on
      the number of agents.
    - `max`: v_g = max_k R_gk.
    - `quantile`: the given quantile of R_g1 .. R_gK, interpolated linearly.
    - `annealed`: mean + (1 - p) (max - mean): `max` in the first update (p = 0), `mean` in the last (p = 1).

    All but `mean` are optimistic: they assume that partners will learn to answer well. An average punishes
    completions that succeed only together with a good partner, such as the call of a helper that still fails, and
    the team settles for a safe answer (relative overgeneralization; Panait, Tuyls and Luke, JMLR 2008). Optimism
    misleads if rewards are noisy, since the best of K returns is then the luckiest one.

    Degenerate case: with K = 1 each value is the return itself. p is the `progress` of the run.
    """
    average: Returns = values.mean(-1)
    best: Returns = values.max(-1)
    if aggregation == "quantile":
        assert quantile is not None
        return np.asarray(np.quantile(values, quantile, axis=-1))
    if aggregation == "annealed":
        return average + (1 - progress) * (best - average)
    return best if aggregation == "max" else average
