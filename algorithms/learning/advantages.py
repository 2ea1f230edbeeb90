"""Credit assignment: from rollouts to the advantage of every completion of every agent."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from llm_decpomdp.algorithms.critics.targets import Outlook
from llm_decpomdp.algorithms.learning.aggregation import aggregate
from llm_decpomdp.algorithms.learning.baselines import (
    Baseline,
    Returns,
    advantages,
    pool_advantages,
)
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.learning.returns import partner_returns, returns, visit_weights
from llm_decpomdp.algorithms.learning.running import RunningBaseline
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout, Start


@dataclass(frozen=True)
class GroupAdvantages:
    """Advantages and loss weight of one group."""

    start: Start
    group: Group
    weight: float
    """Factor of the loss."""
    advantages: dict[str, Returns]
    """Advantages of each agent's G completions, (G,)."""
    values: dict[str, Returns] = field(default_factory=dict)
    """Values of the same completions, before anything is subtracted, (G,)."""
    tokens: dict[str, float] = field(default_factory=dict)
    """Where groups of a turn are one pool: mean number of an agent's tokens in them that are trained."""

    @property
    def has_signal(self) -> bool:
        """True unless all advantages are 0."""
        return any(values.any() for values in self.advantages.values())


def group_advantages(
    rollouts: Sequence[Rollout],
    agents: Collection[str],
    baseline: Baseline,
    options: LearnerOptions,
    progress: float = 0.0,
    outlooks: Sequence[Outlook] | None = None,
    limits: Mapping[str, int] | None = None,
    running: RunningBaseline | None = None,
) -> Iterator[GroupAdvantages]:
    """Yield the advantages and the loss weight of every group.

    A completion's value is that of its returns beside each choice of partners (`aggregate`), less a deduction for
    its length (`_penalty`). It is compared with the other completions of its group or, where a rollout is several
    episodes, with those of all groups of its turn. An agent that skipped its prompt has said the same in all of
    them, nothing, and learns nothing; its team-mates learn as ever.

    Args:
        rollouts: As sampled.
        agents: The agents that learn.
        baseline: Subtracted from the values.
        options: Discount, aggregation, normalisation and turn weights. A group's `weight` is its visit weight
            times its turn's factor.
        progress: From 0 in the first update of the run to 1 in the last.
        outlooks: A critic's part in the returns of each rollout, in place of those of the plan.
        limits: Token limit of each agent; needed if `overlong_tokens` is set.
        running: Baselines of roles, subtracted first.

    Raises:
        FloatingPointError: If a return isn't finite; names the start.
    """
    parts = outlooks if outlooks is not None else [None] * len(rollouts)
    for rollout, outlook in zip(rollouts, parts, strict=True):
        values = [
            _values(rollout.start, group, joint_returns, agents, options, progress, limits or {})
            for group, joint_returns in zip(
                rollout.groups, _returns(rollout, agents, options, outlook), strict=True
            )
        ]
        compared = values
        if running is not None:
            compared = [
                running.differences(rollout.start, group.turn, of)
                for group, of in zip(rollout.groups, values, strict=True)
            ]
        if rollout.pooled:
            all_advantages = _pooled(rollout.groups, compared, baseline, options)
        else:
            all_advantages = _by_group(compared, baseline, options)
        tokens = _pool_tokens(rollout, values, options)
        for group, visit, by_agent, of, of_pool in zip(
            rollout.groups, visit_weights(rollout), all_advantages, values, tokens, strict=True
        ):
            weight = visit * options.turn_weight(group.turn, group.stopped_early)
            leaky = {agent: _leak(gains, options) for agent, gains in by_agent.items()}
            yield GroupAdvantages(rollout.start, group, weight, leaky, of, of_pool)


def _returns(
    rollout: Rollout,
    agents: Collection[str],
    options: LearnerOptions,
    outlook: Outlook | None,
) -> list[dict[str, Returns]]:
    """Return the returns of the joint samples of each group, (J,), by agent: the same for all without a critic."""
    if outlook is None:
        outlook = dict.fromkeys(agents, returns(rollout, options.discount))
    return [
        {agent: outlook[agent][index] for agent in agents} for index in range(len(rollout.groups))
    ]


def _values(
    start: Start,
    group: Group,
    joint_returns: Mapping[str, Returns],
    agents: Collection[str],
    options: LearnerOptions,
    progress: float,
    limits: Mapping[str, int],
) -> dict[str, Returns]:
    """Return the values of each learning agent's completions, (G,)."""
    if not all(math.isfinite(float(of_one.sum())) for of_one in joint_returns.values()):
        raise FloatingPointError(f"a return isn't finite for {start}: {group.rewards}")
    return {
        agent: aggregate(
            partner_returns(group, joint_returns[agent], position),
            options.joint_aggregation,
            quantile=options.aggregation_quantile,
            progress=progress,
        )
        - _penalty(group, agent, options, limits)
        for position, (agent, completions) in enumerate(group.completions.items())
        if agent in agents and not completions[0].skipped
    }


def _by_group(
    values: Sequence[Mapping[str, Returns]],
    baseline: Baseline,
    options: LearnerOptions,
) -> list[dict[str, Returns]]:
    """Compare the completions of each group."""
    normalize = options.normalize_advantages
    return [
        {agent: advantages(of, baseline, normalize=normalize) for agent, of in by_agent.items()}
        for by_agent in values
    ]


def _pooled(
    groups: Sequence[Group],
    values: Sequence[Mapping[str, Returns]],
    baseline: Baseline,
    options: LearnerOptions,
) -> list[dict[str, Returns]]:
    """Compare the completions of all groups of a turn and, if that has a weight, of equal joint prompts.

    Episodes that ended earlier are in no later pool (`pool_advantages`). With the weight w of the second
    comparison

        A = A_turn + w A_prompts

    where A_prompts is A_turn if no other completion has the same prompts. GiGPO (arXiv 2505.10978) takes 0 there.
    The first turn, on which all prompts are equal, would then weigh 1 + w, and later ones as little as 1.
    """
    size = len(groups[0].joint)
    turns = [group.turn for group in groups]
    pooled = _by_pool(turns, values, baseline, options, size)
    if not options.step_advantage_weight:
        return pooled
    states = [(group.turn, *group.prompts.items()) for group in groups]
    steps = _by_pool(states, values, baseline, options, size, alone=pooled)
    return [
        {agent: of + options.step_advantage_weight * step[agent] for agent, of in by_agent.items()}
        for by_agent, step in zip(pooled, steps, strict=True)
    ]


def _by_pool(
    pools: Sequence[Hashable],
    values: Sequence[Mapping[str, Returns]],
    baseline: Baseline,
    options: LearnerOptions,
    size: int,
    alone: Sequence[Mapping[str, Returns]] | None = None,
) -> list[dict[str, Returns]]:
    """Compare the completions of all groups of a pool.

    Args:
        pools: The pool of each group.
        values: Of each group, by agent.
        baseline: Subtracted from the values.
        options: Normalization.
        size: Number of episodes.
        alone: Advantages of completions that are alone in a pool, if they are not those of the baseline.
    """
    result: list[dict[str, Returns]] = [{} for _ in values]
    members: dict[tuple[Hashable, str], list[int]] = {}
    for index, (pool, by_agent) in enumerate(zip(pools, values, strict=True)):
        for agent in by_agent:
            members.setdefault((pool, agent), []).append(index)
    for (_, agent), indices in members.items():
        parts = [values[index][agent] for index in indices]
        pool_values = np.concatenate(parts)
        if len(pool_values) == 1 and alone is not None:
            compared = alone[indices[0]][agent]
        else:
            normalize = options.normalize_advantages
            compared = pool_advantages(pool_values, baseline, size, normalize=normalize)
        ends = np.cumsum([len(part) for part in parts])[:-1]
        for index, part in zip(indices, np.split(compared, ends), strict=True):
            result[index][agent] = part
    return result


def _pool_tokens(
    rollout: Rollout, values: Sequence[Mapping[str, Returns]], options: LearnerOptions
) -> list[dict[str, float]]:
    """Return for each group the mean number of each agent's trained tokens over the groups of its pool.

    A group that is alone in its pool, such as the group of the first turn, has none.
    """
    means: list[dict[str, float]] = [{} for _ in values]
    if not rollout.pooled:
        return means
    pools: dict[tuple[int, str], dict[int, int]] = {}
    for index, (group, by_agent) in enumerate(zip(rollout.groups, values, strict=True)):
        for agent in by_agent:
            count = sum(
                len(completion.tokens)
                for completion in group.completions[agent]
                if options.truncated != "mask" or not completion.truncated
            )
            pools.setdefault((group.turn, agent), {})[index] = count
    for (_, agent), counts in pools.items():
        if len(counts) > 1:
            tokens = max(sum(counts.values()), 1) / len(counts)
            for index in counts:
                means[index][agent] = tokens
    return means


def _leak(values: Returns, options: LearnerOptions) -> Returns:
    return np.where(values < 0, options.negative_advantage_weight * values, values)


def _penalty(
    group: Group, agent: str, options: LearnerOptions, limits: Mapping[str, int]
) -> Returns:
    """Return the deductions for length of an agent's completions, (G,).

    With the limit L and n = `overlong_tokens` a completion of l tokens loses the share max(0, 1 - (L - l) / n) of
    the penalty, and one that was truncated all of it (DAPO, arXiv 2503.14476, eq. 13).
    """
    completions = group.completions[agent]
    if options.truncated != "penalise":
        return np.zeros(len(completions))
    share = np.array([completion.truncated for completion in completions], dtype=np.float64)
    if options.overlong_tokens:
        room = limits[agent] - np.array([len(completion.tokens) for completion in completions])
        share = np.clip(1 - room / options.overlong_tokens, share, 1.0)
    return options.truncation_penalty * share
