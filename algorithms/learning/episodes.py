"""Credit assignment in whole episodes (`rollout.mode=episodes`): comparison of completions with other groups."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from llm_decpomdp.algorithms.learning.advantages import (
    Baseline,
    GroupValues,
    Returns,
    leave_one_out,
    mean,
    none,
    subtract_baseline,
)
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions


def add_pools(groups: Sequence[GroupValues], options: LearnerOptions) -> list[GroupValues]:
    """Return the groups of a rollout with the tokens of their turns and the number of episodes."""
    size = len(groups[0].group.joint)
    return [
        replace(group, tokens=tokens, num_episodes=size)
        for group, tokens in zip(groups, _pool_tokens(groups, options), strict=True)
    ]


def _pool_tokens(groups: Sequence[GroupValues], options: LearnerOptions) -> list[dict[str, float]]:
    """Return for each group the mean number of each agent's trained tokens over the groups of its turn.

    A group that is alone on its turn, such as the group of the first turn, has none.
    """
    means: list[dict[str, float]] = [{} for _ in groups]
    pools: dict[tuple[int, str], dict[int, int]] = {}
    for index, group in enumerate(groups):
        for agent in group.values:
            count = sum(
                len(completion.tokens)
                for completion in group.group.completions[agent]
                if options.truncation.mode != "mask" or not completion.truncated
            )
            pools.setdefault((group.group.turn, agent), {})[index] = count
    for (_, agent), counts in pools.items():
        if len(counts) > 1:
            # At least 1, as `truncation.mode=mask` may leave out all tokens, and `token_mean` divides by this.
            tokens = max(sum(counts.values()), 1) / len(counts)
            for index in counts:
                means[index][agent] = tokens
    return means


def pool_advantages(
    returns: Returns, baseline: Baseline, size: int, *, normalize: bool = False
) -> Returns:
    """A_g of the n of `size` episodes that reach a turn, (n,): `subtract_baseline` if all of them do.

    Episodes that ended earlier have no completion to compare with. With `mean` or `leave_one_out`

        A_g = c (R_g - mean of the n - 1 others),    c = (size - 1)/size under `mean`, and 1 under `leave_one_out`

    and a single completion is compared with 0, the reward of the other episodes after their end. So the baseline
    does not depend on the completion, and the weight of every turn is c (the mean of all n returns would give
    (n - 1)/n). Any other baseline is computed from the n returns; with it a single completion has an advantage of
    0, unless the baseline is `none`.

    With `normalize`, a single return has no deviation, and an advantage of 0.
    """
    number = len(returns)
    if number == size:
        return subtract_baseline(returns, baseline, normalize=normalize)
    if baseline in (mean, leave_one_out):
        compared = subtract_baseline(
            returns, leave_one_out if number > 1 else none, normalize=normalize
        )
        return compared * ((size - 1) / size) if baseline is mean else compared
    if number == 1 and baseline is not none:
        return np.zeros(1)
    return subtract_baseline(returns, baseline, normalize=normalize)


def compare_pools(
    groups: Sequence[GroupValues],
    pools: Sequence[Hashable],
    baseline: Baseline,
    *,
    normalize: bool = False,
    default: Sequence[Mapping[str, Returns]] | None = None,
) -> list[dict[str, Returns]]:
    """Compare the completions of all groups with the same pool, such as a turn, for each agent.

    Args:
        groups: The groups of one rollout of whole episodes.
        pools: The pool of each group.
        baseline: Subtracted from the values of a pool.
        normalize: Divide by the standard deviation of the values of a pool.
        default: Advantages of completions that are alone in their pool; by default those of `pool_advantages`.

    Returns:
        For each group the advantages (G,) by agent.
    """
    size = groups[0].num_episodes
    assert size is not None, "pools exist in whole episodes only"
    result: list[dict[str, Returns]] = [{} for _ in groups]
    members: dict[tuple[Hashable, str], list[int]] = {}
    for index, (pool, group) in enumerate(zip(pools, groups, strict=True)):
        for agent in group.values:
            members.setdefault((pool, agent), []).append(index)
    for (_, agent), indices in members.items():
        parts = [groups[index].values[agent] for index in indices]
        pool_values = np.concatenate(parts)
        if len(pool_values) == 1 and default is not None:
            compared = default[indices[0]][agent]
        else:
            compared = pool_advantages(pool_values, baseline, size, normalize=normalize)
        ends = np.cumsum([len(part) for part in parts])[:-1]
        for index, part in zip(indices, np.split(compared, ends), strict=True):
            result[index][agent] = part
    return result


def compare_episodes(
    groups: Sequence[GroupValues], baseline: Baseline, options: LearnerOptions
) -> list[dict[str, Returns]]:
    """Compare the completions of all groups of a turn and, if that has a weight, of equal joint prompts.

    Episodes that ended earlier are in no later pool (`pool_advantages`). With the weight w of the second
    comparison

        A = A_turn + w A_prompts

    where A_prompts is A_turn if no other completion has the same prompts. GiGPO (arXiv 2505.10978) takes 0 there.
    The first turn, on which all prompts are equal, would then weigh 1 + w, and later ones as little as 1.
    """
    normalize, weight = options.normalizes_groups, options.step_advantage_weight
    turns = [group.group.turn for group in groups]
    by_turn = compare_pools(groups, turns, baseline, normalize=normalize)
    if not weight:
        return by_turn
    states = [(group.group.turn, *group.group.prompts.items()) for group in groups]
    by_state = compare_pools(groups, states, baseline, normalize=normalize, default=by_turn)
    return [
        {agent: values + weight * step[agent] for agent, values in turn.items()}
        for turn, step in zip(by_turn, by_state, strict=True)
    ]
