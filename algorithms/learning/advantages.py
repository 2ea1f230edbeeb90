"""Credit assignment: from rollouts to the advantage of every completion of every agent."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from llm_decpomdp.algorithms.critics.targets import Outlook
from llm_decpomdp.algorithms.learning.aggregation import aggregate
from llm_decpomdp.algorithms.learning.baselines import Baseline, Returns, advantages, none
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.learning.returns import partner_returns, returns, visit_weights
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
) -> Iterator[GroupAdvantages]:
    """Yield the advantages and the loss weight of every group.

    A completion's value is that of its returns beside each choice of partners (`aggregate`), less
    `truncation_penalty` if it hit the token limit and the option `truncated` is `penalise`. It is compared with
    the other completions of its group or, where a rollout is several episodes, with those of all groups of its
    turn. An agent that skipped its prompt has said the same in all of them, nothing, and learns nothing; its
    team-mates learn as ever.

    Args:
        rollouts: As sampled.
        agents: The agents that learn.
        baseline: Subtracted from the values.
        options: Discount, aggregation, normalisation and turn weights. A group's `weight` is its visit weight
            times its turn's factor.
        progress: From 0 in the first update of the run to 1 in the last.
        outlooks: A critic's part in the returns of each rollout, in place of those of the plan.

    Raises:
        FloatingPointError: If a return isn't finite; names the start.
    """
    for rollout, outlook in zip(rollouts, outlooks or repeat(None), strict=False):
        values = [
            _values(rollout.start, group, joint_returns, agents, options, progress)
            for group, joint_returns in zip(
                rollout.groups, _returns(rollout, agents, options, outlook), strict=True
            )
        ]
        compare = _pooled if rollout.pooled else _by_group
        all_advantages = compare(rollout.groups, values, baseline, options)
        for group, visit, by_agent in zip(
            rollout.groups, visit_weights(rollout), all_advantages, strict=True
        ):
            weight = visit * options.turn_weight(group.turn, group.stopped_early)
            leaky = {agent: _leak(values, options) for agent, values in by_agent.items()}
            yield GroupAdvantages(rollout.start, group, weight, leaky)


def _returns(
    rollout: Rollout,
    agents: Collection[str],
    options: LearnerOptions,
    outlook: Outlook | None,
) -> list[dict[str, Returns]]:
    """Return the returns of the joint samples of each group, (J,), by agent.

    Without a critic they are the same for all agents. With one they are less the value of the state before, where
    the algorithm compares with that.
    """
    if outlook is None:
        same = returns(rollout, options.discount)
        return [dict.fromkeys(agents, joint_returns) for joint_returns in same]
    return [
        {agent: outlook.returns[agent][index] - outlook.values[agent][index] for agent in agents}
        for index in range(len(rollout.groups))
    ]


def _values(
    start: Start,
    group: Group,
    joint_returns: Mapping[str, Returns],
    agents: Collection[str],
    options: LearnerOptions,
    progress: float,
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
        - _penalty(group, agent, options)
        for position, (agent, completions) in enumerate(group.completions.items())
        if agent in agents and not completions[0].skipped
    }


def _by_group(
    groups: Sequence[Group],
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

    Episodes that ended earlier are in no later pool. A completion that is alone in its pool has nothing to be
    compared with: its advantage is 0, but for baselines that compare with nothing.
    """
    turns = [group.turn for group in groups]
    pooled = _by_pool(turns, values, baseline, options)
    if not options.step_advantage_weight:
        return pooled
    states = [(group.turn, *group.prompts.items()) for group in groups]
    steps = _by_pool(states, values, baseline, options)
    return [
        {agent: of + options.step_advantage_weight * step[agent] for agent, of in by_agent.items()}
        for by_agent, step in zip(pooled, steps, strict=True)
    ]


def _by_pool(
    pools: Sequence[Hashable],
    values: Sequence[Mapping[str, Returns]],
    baseline: Baseline,
    options: LearnerOptions,
) -> list[dict[str, Returns]]:
    result: list[dict[str, Returns]] = [{} for _ in values]
    members: dict[tuple[Hashable, str], list[int]] = {}
    for index, (pool, by_agent) in enumerate(zip(pools, values, strict=True)):
        for agent in by_agent:
            members.setdefault((pool, agent), []).append(index)
    for (_, agent), indices in members.items():
        parts = [values[index][agent] for index in indices]
        pool_values = np.concatenate(parts)
        if len(pool_values) == 1 and baseline is not none:
            compared = np.zeros(1)
        else:
            compared = advantages(pool_values, baseline, normalize=options.normalize_advantages)
        ends = np.cumsum([len(part) for part in parts])[:-1]
        for index, part in zip(indices, np.split(compared, ends), strict=True):
            result[index][agent] = part
    return result


def _leak(values: Returns, options: LearnerOptions) -> Returns:
    return np.where(values < 0, options.negative_advantage_weight * values, values)


def _penalty(group: Group, agent: str, options: LearnerOptions) -> Returns:
    if options.truncated != "penalise":
        return np.zeros(len(group.completions[agent]))
    truncated = [completion.truncated for completion in group.completions[agent]]
    return options.truncation_penalty * np.array(truncated, dtype=np.float64)
