"""Values of completions that are not their mean returns: other averages over partners, and penalties for length.

`group_values` calls `other_values` with a `joint_aggregation` other than `mean`, or `truncation.mode=penalise`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llm_decpomdp.algorithms.learning.advantages import Returns
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.policy import Completion, Policy, policy_attribute


def other_values(
    with_partners: Returns,
    completions: Sequence[Completion],
    options: LearnerOptions,
    progress: float,
    limit: int | None,
) -> Returns:
    """Return the value of each completion of an agent, (G,), by `joint_aggregation` and `truncation`.

    Args:
        with_partners: Its returns with K choices of partners, (G, K).
        completions: The G completions.
        options: Those of the learner.
        progress: From 0 in the first update of the run to 1 in the last.
        limit: Token limit of the agent; needed if `overlong_buffer_len` is set.

    Raises:
        ValueError: If the limit is needed and missing.
    """
    name, quantile = options.joint_aggregation.name, options.joint_aggregation.quantile
    values = aggregate(with_partners, name, quantile=quantile, progress=progress)
    if options.truncation.mode == "penalise":
        values = values - length_penalties(completions, options, limit)
    return values


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


def length_penalties(
    completions: Sequence[Completion], options: LearnerOptions, limit: int | None
) -> Returns:
    """Return the length penalties of an agent's completions, (G,), for `truncation.mode=penalise`.

    With the limit L and n = `overlong_buffer_len`, a completion of l tokens loses the share
    max(0, 1 - (L - l) / n) of the penalty; a truncated one loses all of it (DAPO, arXiv 2503.14476, eq. 13).

    Args:
        completions: The G completions of an agent.
        options: The penalty, and over how many tokens it grows.
        limit: Token limit of the agent, L; needed if `overlong_buffer_len` is set.

    Raises:
        ValueError: If the limit is needed and missing.
    """
    share = np.array([completion.truncated for completion in completions], dtype=np.float64)
    tokens = options.truncation.overlong_buffer_len
    if tokens:
        if limit is None:
            raise ValueError(
                f"overlong_buffer_len={tokens} needs the token limit of each agent: pass limits, or set "
                "overlong_buffer_len=0"
            )
        room = limit - np.array([len(completion.tokens) for completion in completions])
        # The lower bound is 1 where a completion was truncated, and 0 elsewhere.
        share = np.clip(1 - room / tokens, share, 1.0)
    return options.truncation.overlong_penalty * share


def token_limit(agent: str, policy: Policy, overlong: int) -> int:
    """Return the token limit of an agent's policy, for a penalty that grows over its last `overlong` tokens."""
    limit: int | None = policy_attribute(policy, "max_new_tokens")
    if limit is None:
        raise TypeError(
            f"overlong_buffer_len={overlong} needs policies with max_new_tokens, and that of {agent!r} is a "
            f"{type(policy).__name__}; set overlong_buffer_len=0"
        )
    if overlong > limit:
        raise ValueError(
            f"overlong_buffer_len={overlong} is more than max_new_tokens={limit} of {agent!r}: every "
            "completion would be penalized; lower it"
        )
    return limit
