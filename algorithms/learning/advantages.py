"""Credit assignment: from rollouts to the advantage of every completion of every agent.

rewards of joint samples ─► returns (J,) ─► values of completions (G,) ─► advantages (G,), by
`Algorithm.advantages`
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.learning.returns import (
    Baseline,
    Returns,
    advantages,
    aggregate,
    partner_returns,
    pool_advantages,
    returns,
    visit_weights,
)
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout, Start

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.learning.algorithm import Algorithm

ValueTargets = dict[str, list[Returns]]
"""Returns of the joint samples of each group of a rollout, (J,), by agent, as a critic estimates them."""


class ReturnEstimator(Protocol):
    """A critic: it replaces the returns of joint samples by estimates, and learns from each batch."""

    def assess(self, rollouts: Sequence[Rollout]) -> tuple[list[ValueTargets], dict[str, float]]:
        """Return the targets of each rollout, and metrics; nothing changes before `learn`."""

    def learn(self) -> None:
        """Train on the newest batch that was assessed."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which `load_state_dict` continues exactly."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value."""


@dataclass(frozen=True)
class GroupValues:
    """A group and the values of its completions: the input of `Algorithm.advantages`."""

    start: Start
    """The task and seed of the rollout."""
    group: Group
    """Turn, prompts, completions (texts, tokens), joint samples and rewards."""
    weight: float
    """Factor of the group's loss."""
    values: dict[str, Returns] = field(default_factory=dict)
    """Value of each of the G completions, (G,), by agent. Agents that do not learn have none, nor have agents
    whose prompt was skipped."""
    tokens: dict[str, float] = field(default_factory=dict)
    """In whole episodes: mean number of an agent's trained tokens over the groups of the turn."""
    num_episodes: int | None = None
    """In whole episodes: number of episodes whose completions on one turn are compared with each other. `None` if
    a group is compared by itself."""


@dataclass(frozen=True)
class GroupAdvantages(GroupValues):
    """A group, the values of its completions, and their advantages."""

    advantages: dict[str, Returns] = field(default_factory=dict)
    """Advantage of each of the G completions, (G,), by agent."""

    @property
    def has_signal(self) -> bool:
        """True unless all advantages are 0."""
        return any(values.any() for values in self.advantages.values())


def group_advantages(
    rollouts: Sequence[Rollout],
    agents: Collection[str],
    algorithm: Algorithm,
    options: LearnerOptions,
    progress: float = 0.0,
    targets: Sequence[ValueTargets] | None = None,
    limits: Mapping[str, int] | None = None,
) -> Iterator[GroupAdvantages]:
    """Yield the advantages and the loss weight of every group.

    The value of a completion aggregates its returns over the choices of partners (`aggregate`), less a penalty for
    its length (`_penalty`). `Algorithm.advantages` compares the values. An agent that skipped its prompt has no
    completion to learn from; its teammates learn as usual.

    Args:
        rollouts: As sampled.
        agents: The agents that learn.
        algorithm: Compares the values.
        options: Discount, aggregation, normalization and turn weights. A group's `weight` is its visit weight
            times its turn's factor.
        progress: From 0 in the first update of the run to 1 in the last.
        targets: Returns of each rollout as a critic estimates them; by default the observed ones.
        limits: Token limit of each agent; needed if `overlong_tokens` is set.

    Raises:
        FloatingPointError: If a return isn't finite; names the start.
        ValueError: If `Algorithm.advantages` returns another shape than that of the values.
    """
    for index, rollout in enumerate(rollouts):
        found = targets[index] if targets is not None else None
        groups = _group_values(rollout, agents, options, progress, found, limits or {})
        compared = algorithm.advantages(groups, options)
        _check_shapes(algorithm, groups, compared)
        for group, of_group in zip(groups, compared, strict=True):
            leaky = {agent: _leak(gains, options) for agent, gains in of_group.items()}
            yield GroupAdvantages(**vars(group), advantages=leaky)


def compare(
    groups: Sequence[GroupValues], baseline: Baseline, options: LearnerOptions
) -> list[dict[str, Returns]]:
    """Subtract a baseline from the values of each agent's completions.

    A completion is compared with the others of its group or, if the rollout consists of whole episodes, with those
    of all groups of its turn.

    Args:
        groups: The groups of one rollout.
        baseline: From values (..., G) to baselines in the same shape.
        options: `normalize_advantages`, and `step_advantage_weight` for whole episodes.

    Returns:
        For each group the advantages (G,) by agent.
    """
    normalize = options.normalize_advantages
    if groups[0].num_episodes is not None:
        return _compare_episodes(groups, baseline, options)
    return [
        {a: advantages(values, baseline, normalize=normalize) for a, values in group.values.items()}
        for group in groups
    ]


def compare_pools(
    groups: Sequence[GroupValues],
    pools: Sequence[Hashable],
    baseline: Baseline,
    *,
    normalize: bool = False,
    default: Sequence[Mapping[str, Returns]] | None = None,
) -> list[dict[str, Returns]]:
    """Compare the completions of all groups with the same pool, for each agent.

    Args:
        groups: The groups of one rollout of whole episodes.
        pools: The pool of each group, such as its turn.
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


def _compare_episodes(
    groups: Sequence[GroupValues], baseline: Baseline, options: LearnerOptions
) -> list[dict[str, Returns]]:
    """Compare the completions of all groups of a turn and, if that has a weight, of equal joint prompts.

    Episodes that ended earlier are in no later pool (`pool_advantages`). With the weight w of the second
    comparison

        A = A_turn + w A_prompts

    where A_prompts is A_turn if no other completion has the same prompts. GiGPO (arXiv 2505.10978) takes 0 there.
    The first turn, on which all prompts are equal, would then weigh 1 + w, and later ones as little as 1.
    """
    normalize, weight = options.normalize_advantages, options.step_advantage_weight
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


def _group_values(
    rollout: Rollout,
    agents: Collection[str],
    options: LearnerOptions,
    progress: float,
    targets: ValueTargets | None,
    limits: Mapping[str, int],
) -> list[GroupValues]:
    """Return the values of the completions of each group of a rollout."""
    if targets is None:
        targets = dict.fromkeys(agents, returns(rollout, options.discount))
    values = [
        _completion_values(
            rollout.start,
            group,
            {agent: targets[agent][index] for agent in agents},
            options,
            progress,
            limits,
        )
        for index, group in enumerate(rollout.groups)
    ]
    pooled = rollout.pooled
    tokens = _pool_tokens(rollout, values, options) if pooled else [{} for _ in values]
    size = len(rollout.groups[0].joint) if pooled else None
    return [
        GroupValues(
            rollout.start,
            group,
            visit * options.turn_weight(group.turn, group.stopped_early),
            values[index],
            tokens[index],
            size,
        )
        for index, (group, visit) in enumerate(
            zip(rollout.groups, visit_weights(rollout), strict=True)
        )
    ]


def _completion_values(
    start: Start,
    group: Group,
    joint_returns: Mapping[str, Returns],
    options: LearnerOptions,
    progress: float,
    limits: Mapping[str, int],
) -> dict[str, Returns]:
    """Return the values of each learning agent's completions, (G,)."""
    if not all(math.isfinite(float(values.sum())) for values in joint_returns.values()):
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
        if agent in joint_returns and not completions[0].skipped
    }


def _pool_tokens(
    rollout: Rollout, values: Sequence[Mapping[str, Returns]], options: LearnerOptions
) -> list[dict[str, float]]:
    """Return for each group the mean number of each agent's trained tokens over the groups of its turn.

    A group that is alone on its turn, such as the group of the first turn, has none.
    """
    means: list[dict[str, float]] = [{} for _ in values]
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
    """Return the length penalties of an agent's completions, (G,).

    With the limit L and n = `overlong_tokens`, a completion of l tokens loses the share max(0, 1 - (L - l) / n) of
    the penalty; a truncated one loses all of it (DAPO, arXiv 2503.14476, eq. 13).
    """
    completions = group.completions[agent]
    if options.truncated != "penalise":
        return np.zeros(len(completions))
    share = np.array([completion.truncated for completion in completions], dtype=np.float64)
    if options.overlong_tokens:
        room = limits[agent] - np.array([len(completion.tokens) for completion in completions])
        share = np.clip(1 - room / options.overlong_tokens, share, 1.0)
    return options.truncation_penalty * share


def _check_shapes(
    algorithm: Algorithm,
    groups: Sequence[GroupValues],
    compared: Sequence[Mapping[str, Returns]],
) -> None:
    """Raise a `ValueError` unless each group has an advantage for each value."""
    expected = [{agent: values.shape for agent, values in group.values.items()} for group in groups]
    actual = [{agent: np.shape(values) for agent, values in found.items()} for found in compared]
    if actual != expected:
        raise ValueError(
            f"{algorithm.name}.advantages must return a mapping from agent to an array for each group, with the "
            f"shapes of `values`: expected {expected}, got {actual}"
        )
