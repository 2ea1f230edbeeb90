"""Credit assignment: from rollouts to the advantage of every completion of every agent.

rewards of joint samples ─► `returns`, (J,) ─► `group_values`: mean over partners, (G,) ─► `Algorithm.advantages`:
`subtract_baseline`, (G,)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout, Start
from llm_decpomdp.testing.rules import short

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.learning.algorithm import Algorithm

Returns = NDArray[np.float64]
Baseline = Callable[[Returns], Returns]
"""From the values of a group, (..., G), to the baseline of each completion, in the same shape."""

# Sums of equal rewards in another order differ by a few units in the last place (1e-16); 1e-12 of the largest
# return leaves room for groups of thousands. Smaller differences are set to 0, because Adam divides by the size of
# a gradient and would take a step of full length along rounding errors.
ROUNDING = 1e-12
"""Differences up to this share of the group's largest return count as rounding errors."""

SMALLEST_SPREAD = 1e-8
"""Standard deviation below which normalized advantages treat the returns of a group as equal."""


def returns(rollout: Rollout, discount: float = 1.0) -> list[Returns]:
    """Compute the return of each joint sample, (J,), for each group of a rollout.

    In a tree, the return of a joint sample is its reward and the mean return of the group that follows it:

        R_j = r_j + discount * (1/J') sum_j' R_j'      over the J' joint samples of the following group

    and r_j if no group follows. In a chain only one joint sample of a group is continued. The later rewards say
    nothing about the other joint samples, so R_j = r_j for all of them, whatever the discount.

    Args:
        rollout: A rollout.
        discount: Discount of later rewards, in [0, 1].
    """
    values = [np.array(group.rewards, dtype=np.float64) for group in rollout.groups]
    # Groups are stored parents first, so the reverse order adds up complete returns only.
    for group, value in zip(reversed(rollout.groups), reversed(values), strict=True):
        if group.parent is not None and rollout.groups[group.parent.group].chosen is None:
            values[group.parent.group][group.parent.sample] += discount * value.mean()
    return values


def partner_returns(group: Group, joint_returns: Returns, position: int) -> Returns:
    """Return the return of each completion with each of the K choices of its partners, (G, K).

    K is 1 for aligned joint samples and G^(N-1) for crossed ones. If partners were drawn (`joint_mode=common`),
    only the joint samples that were played for this agent count, although others may contain the completion:
    within a column, all completions have the same partners. `position` is that of the agent in the group.
    """
    if not group.anchors:
        indices = [sample[position] for sample in group.joint]
        # A stable sort keeps the partners of all completions in one order, so that columns correspond.
        # Without anchors each completion has equally many partners, so the rows are equally long.
        by_completion: Returns = joint_returns[np.argsort(indices, kind="stable")]
        return by_completion.reshape(max(indices) + 1, -1)
    number = {sample: j for j, sample in enumerate(group.joint)}
    size = 1 + max(sample[position] for sample in group.joint)
    cells = [
        [number[(*anchor[:position], g, *anchor[position + 1 :])] for anchor in group.anchors]
        for g in range(size)
    ]
    return np.asarray(joint_returns[np.array(cells)])


def progress(updates: int, total: int | None) -> float:
    """Return the progress of a run after some complete updates: 0 in the first update, 1 in the last."""
    return 1.0 if total is None or total < 2 else min(1.0, updates / (total - 1))


def visit_weights(rollout: Rollout) -> list[float]:
    """Return the state-visitation weight of each group: the share of episodes that reach it.

    1 at the start. In a tree, and in whole episodes, each of the J joint samples of a group takes 1/J of its
    group's weight. In a chain, the chosen joint sample represents all joint samples after which the episode
    continues: the next group has the weight of this group, times the share of these joint samples. With these
    weights the expected gradient of a turn is the expectation over all episodes that reach it (policy gradient
    theorem, Sutton et al. 2000), even if episodes end at different turns.
    """
    weights: list[float] = []
    for group in rollout.groups:
        if group.parent is None:
            weights.append(1.0)
            continue
        before, weight = rollout.groups[group.parent.group], weights[group.parent.group]
        weights.append(
            # Where all joint samples go on, the groups after them share the weight.
            weight / len(before.joint) if before.chosen is None else weight * before.going_share
        )
    return weights


# ---------------------------------------------------------------------------------------- baselines
#
# All baselines shift or scale the same returns. How much of that reaches the weights depends on the optimizer:
# - Plain gradient descent takes a different step with each of them.
# - Adam divides by the scale of the gradient, so `mean` and `leave_one_out` take nearly the same step; so they do
#   if the gradient's norm is clipped. `max` and `none` differ by a shift and stay different.
# - Z-scoring after the baseline (centering again, then dividing) would make all of them the same algorithm.
#   Therefore `normalize` divides, and centers nothing again.


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


def subtract_baseline(returns: Returns, baseline: Baseline, *, normalize: bool = False) -> Returns:
    """A_g = R_g - b_g of returns (..., G), over the group's standard deviation if `normalize`.

    The deviation is that of the returns, and nothing is centered again. Baselines that differ by a shift stay
    different; baselines that differ by a factor become equal for optimizers that ignore scale. Normalized groups
    without spread have advantages of 0.
    """
    difference: Returns = returns - baseline(returns)
    noise = ROUNDING * np.abs(returns).max(-1, keepdims=True)
    difference = np.where(np.abs(difference) <= noise, 0.0, difference)
    if not normalize:
        return difference
    spread = returns.std(-1, keepdims=True)
    # Division by infinity makes the advantages 0.
    spread = np.where(spread < SMALLEST_SPREAD, np.inf, spread)
    return difference / spread


ValueTargets = dict[str, list[Returns]]
"""Returns of the joint samples of each group of a rollout, (J,), by agent, as a critic estimates them."""


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
    """Yield the advantages and the loss weight of every group: its visit weight times its turn's factor.

    The value of a completion is the mean of its returns over the choices of partners, or another one of
    `completion_values.py`. `Algorithm.advantages` compares the values. An agent that skipped its prompt has no
    completion to learn from; its teammates learn as usual.

    Args:
        rollouts: As sampled.
        agents: The agents that learn.
        algorithm: Compares the values.
        options: Discount, aggregation, normalization and turn weights.
        progress: From 0 in the first update of the run to 1 in the last.
        targets: Returns of each rollout as a critic estimates them; by default the observed ones.
        limits: Token limit of each agent; needed if `truncation.overlong_buffer_len` is set.

    Raises:
        FloatingPointError: If a return isn't finite; names the start.
        ValueError: If `Algorithm.advantages` returns another shape than that of the values, or a limit is needed
            and missing.
    """
    values_of = partial(group_values, agents=agents, progress=progress, limits=limits or {})
    for index, rollout in enumerate(rollouts):
        groups = values_of(rollout, options, targets[index] if targets is not None else None)
        if options.reward_parts == "normalize_then_sum":
            from llm_decpomdp.algorithms.learning.reward_parts import sum_of_parts

            found = sum_of_parts(rollout, algorithm, options, values_of)
        else:
            found = compute_advantages(algorithm, groups, options)
        for group, of_group in zip(groups, found, strict=True):
            weighted = {
                agent: np.where(values < 0, options.negative_advantage_weight * values, values)
                for agent, values in of_group.items()
            }
            yield GroupAdvantages(**vars(group), advantages=weighted)


def compute_advantages(
    algorithm: Algorithm, groups: Sequence[GroupValues], options: LearnerOptions
) -> list[dict[str, Returns]]:
    """Return the advantages that an algorithm computes; a `ValueError` unless there is one for each value."""
    result: Any = algorithm.advantages(groups, options)
    shapes = [{agent: values.shape for agent, values in group.values.items()} for group in groups]
    try:
        arrays = [{agent: np.asarray(values) for agent, values in of.items()} for of in result]
        actual: Any = [{agent: values.shape for agent, values in of.items()} for of in arrays]
    except (AttributeError, RuntimeError, TypeError, ValueError):
        actual = short(result)
    if actual != shapes:
        raise ValueError(
            f"{algorithm.name}.advantages must return a mapping from agent to values for each group, which are "
            "arrays, lists or CPU tensors without a gradient, with the shapes of `values`: expected "
            f"{shapes}, got {actual}"
        )
    return arrays


def group_values(
    rollout: Rollout,
    options: LearnerOptions,
    targets: ValueTargets | None = None,
    *,
    agents: Collection[str],
    progress: float,
    limits: Mapping[str, int],
) -> list[GroupValues]:
    """Return the values of the completions of each group of a rollout.

    Arguments and errors are those of `group_advantages`; `targets` are those of this rollout.
    """
    if targets is None:
        targets = dict.fromkeys(agents, returns(rollout, options.discount))
        if options.own_weight:
            from llm_decpomdp.algorithms.learning.reward_parts import returns_with_points

            targets = returns_with_points(rollout, agents, options)
    changes_values = (
        options.joint_aggregation.name != "mean" or options.truncation.mode == "penalise"
    )
    result = []
    for index, (group, visit) in enumerate(
        zip(rollout.groups, visit_weights(rollout), strict=True)
    ):
        if not all(math.isfinite(float(of_agent[index].sum())) for of_agent in targets.values()):
            raise FloatingPointError(f"a return isn't finite for {rollout.start}: {group.rewards}")
        values: dict[str, Returns] = {}
        for position, (agent, completions) in enumerate(group.completions.items()):
            if agent not in agents or completions[0].skipped:
                continue
            with_partners = partner_returns(group, targets[agent][index], position)
            # A mean and not a sum: the scale of the gradient does not depend on the number of agents.
            values[agent] = with_partners.mean(-1)
            if changes_values:
                from llm_decpomdp.algorithms.learning.completion_values import other_values

                limit = limits.get(agent)
                values[agent] = other_values(with_partners, completions, options, progress, limit)
        weight = visit * options.turn_weight(group.turn, group.stopped_early)
        result.append(GroupValues(rollout.start, group, weight, values))
    if rollout.pooled:
        from llm_decpomdp.algorithms.learning.episodes import add_pools

        return add_pools(result, options)
    return result
