"""Credit assignment: from rollouts to the advantage of every completion of every agent.

rewards of joint samples ─► returns (J,) ─► values of completions (G,) ─► advantages (G,), by
`Algorithm.advantages`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout, Start

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


def returns(
    rollout: Rollout, discount: float = 1.0, own_agent: str = "", own_weight: float = 0.0
) -> list[Returns]:
    """Compute the return of each joint sample, (J,), for each group of a rollout.

    In a tree, the return of a joint sample is its reward and the mean return of the group that follows it:

        R_j = r_j + discount * (1/J') sum_j' R_j'      over the J' joint samples of the following group

    and r_j if no group follows. In a chain only one joint sample of a group is continued. The later rewards say
    nothing about the other joint samples, so R_j = r_j for all of them, whatever the discount.

    Args:
        rollout: A rollout.
        discount: Discount of later rewards, in [0, 1].
        own_agent: The agent whose own points count; they are also earned on turns on which it does not act.
        own_weight: Factor of the own points, which are added to the rewards r_j; 0 leaves the team's returns.
    """
    values = [np.array(group.rewards, dtype=np.float64) for group in rollout.groups]
    if own_weight:
        for value, group in zip(values, rollout.groups, strict=True):
            value += own_weight * np.array(group.own.get(own_agent, 0.0))
    # Groups are stored parents first, so the reverse order adds up complete returns only.
    for group, value in zip(reversed(rollout.groups), reversed(values), strict=True):
        if group.parent is not None and rollout.groups[group.parent.group].chosen is None:
            values[group.parent.group][group.parent.sample] += discount * value.mean()
    return values


def partner_returns(group: Group, joint_returns: Returns, agent: int) -> Returns:
    """Return the return of each completion with each of the K choices of its partners, (G, K).

    K is 1 for aligned joint samples and G^(N-1) for crossed ones. If partners were drawn (`joint_mode=common`),
    only the joint samples that were played for this agent count, although others may contain the completion:
    within a column, all completions have the same partners. `agent` is its position in the group.
    """
    if not group.anchors:
        indices = [sample[agent] for sample in group.joint]
        # A stable sort keeps the partners of all completions in one order, so that columns correspond.
        by_completion: Returns = joint_returns[np.argsort(indices, kind="stable")]
        return by_completion.reshape(max(indices) + 1, -1)
    position = {sample: j for j, sample in enumerate(group.joint)}
    size = 1 + max(sample[agent] for sample in group.joint)
    cells = [
        [position[(*anchor[:agent], g, *anchor[agent + 1 :])] for anchor in group.anchors]
        for g in range(size)
    ]
    return np.asarray(joint_returns[np.array(cells)])


def progress(updates: int, total: int | None) -> float:
    """Return the progress of a run after some complete updates: 0 in the first update, 1 in the last."""
    return 1.0 if total is None or total < 2 else min(1.0, updates / (total - 1))


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


def advantages(returns: Returns, baseline: Baseline, *, normalize: bool = False) -> Returns:
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
    spread = np.where(spread < SMALLEST_SPREAD, np.inf, spread)
    return difference / spread


def pool_advantages(
    returns: Returns, baseline: Baseline, size: int, *, normalize: bool = False
) -> Returns:
    """A_g of the n of `size` episodes that reach a turn, (n,): `advantages` if all of them do.

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
        return advantages(returns, baseline, normalize=normalize)
    if baseline in (mean, leave_one_out):
        compared = advantages(returns, leave_one_out if number > 1 else none, normalize=normalize)
        return compared * ((size - 1) / size) if baseline is mean else compared
    if number == 1 and baseline is not none:
        return np.zeros(1)
    return advantages(returns, baseline, normalize=normalize)


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


class _Setting(NamedTuple):
    """The arguments of `group_advantages` that hold for all rollouts."""

    agents: Collection[str]
    options: LearnerOptions
    part_of_run: float
    limits: Mapping[str, int]


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

    The value of a completion aggregates its returns over the choices of partners (`aggregate`), less a penalty for
    its length (`_penalty`). `Algorithm.advantages` compares the values. An agent that skipped its prompt has no
    completion to learn from; its teammates learn as usual.

    Args:
        rollouts: As sampled.
        agents: The agents that learn.
        algorithm: Compares the values.
        options: Discount, aggregation, normalization and turn weights.
        progress: From 0 in the first update of the run to 1 in the last.
        targets: Returns of each rollout as a critic estimates them; by default the observed ones.
        limits: Token limit of each agent; needed if `overlong_tokens` is set.

    Raises:
        FloatingPointError: If a return isn't finite; names the start.
        ValueError: If `Algorithm.advantages` returns another shape than that of the values.
    """
    setting = _Setting(agents, options, progress, limits or {})
    for index, rollout in enumerate(rollouts):
        groups = _group_values(rollout, setting, targets[index] if targets is not None else None)
        if options.reward_parts == "normalize_then_sum":
            compared = _sum_of_parts(rollout, algorithm, setting)
        else:
            compared = algorithm.advantages(groups, options)
        _check_shapes(algorithm, groups, compared)
        for group, of_group in zip(groups, compared, strict=True):
            leaky = {
                agent: np.where(gains < 0, options.negative_advantage_weight * gains, gains)
                for agent, gains in of_group.items()
            }
            yield GroupAdvantages(**vars(group), advantages=leaky)


def _sum_of_parts(
    rollout: Rollout, algorithm: Algorithm, setting: _Setting
) -> list[dict[str, Returns]]:
    """Return the sum of the normalized advantages of each component of the reward (GDPO, arXiv 2601.05242).

    An agent's own points are one more component, with the weight `own_weight`. Rewards without components in the
    infos are one component.
    """

    def rewarded(rewards: Callable[[Group], Sequence[float]]) -> Rollout:
        groups = (replace(group, rewards=tuple(rewards(group))) for group in rollout.groups)
        return replace(rollout, groups=tuple(groups))

    def component(name: str) -> Rollout:
        return rewarded(lambda group: [info[name] for info in group.infos])

    options = setting.options
    names = [key for key in rollout.groups[0].infos[0] if key.startswith("reward/")]
    of_part = replace(options, normalize_advantages=True, reward_parts="sum", own_weight=0.0)
    parts = [(part, 1.0, of_part) for part in ([*map(component, names)] or [rollout])]
    if options.own_weight:
        none = rewarded(lambda group: (0.0,) * len(group.joint))
        parts.append((none, options.own_weight, replace(of_part, own_weight=1.0)))
    totals: list[dict[str, Returns]] = [{} for _ in rollout.groups]
    for part, weight, part_options in parts:
        groups = _group_values(part, setting._replace(options=part_options))
        found = algorithm.advantages(groups, part_options)
        _check_shapes(algorithm, groups, found)
        for total, of_group in zip(totals, found, strict=True):
            for agent, values in of_group.items():
                scaled = weight * values
                total[agent] = total[agent] + scaled if agent in total else scaled
    return totals


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
    normalize = options.normalizes_groups
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


def _group_values(
    rollout: Rollout, setting: _Setting, targets: ValueTargets | None = None
) -> list[GroupValues]:
    """Return the values of the completions of each group of a rollout."""
    agents, options, part_of_run, limits = setting
    if targets is None:
        discount, weight = options.discount, options.own_weight
        if weight:
            targets = {agent: returns(rollout, discount, agent, weight) for agent in agents}
        else:
            targets = dict.fromkeys(agents, returns(rollout, discount))
    values: list[dict[str, Returns]] = []
    for index, group in enumerate(rollout.groups):
        if not all(math.isfinite(float(of_agent[index].sum())) for of_agent in targets.values()):
            raise FloatingPointError(f"a return isn't finite for {rollout.start}: {group.rewards}")
        values.append(
            {
                agent: aggregate(
                    partner_returns(group, targets[agent][index], position),
                    options.joint_aggregation,
                    quantile=options.aggregation_quantile,
                    progress=part_of_run,
                )
                - _penalty(group, agent, options, limits)
                for position, (agent, completions) in enumerate(group.completions.items())
                if agent in agents and not completions[0].skipped
            }
        )
    pooled = rollout.pooled
    tokens = _pool_tokens(rollout, values, options) if pooled else [{} for _ in values]
    size = len(rollout.groups[0].joint) if pooled else None
    return [
        GroupValues(
            rollout.start,
            group,
            visit * options.turn_weight(group.turn, group.stopped_early),
            of_group,
            of_tokens,
            size,
        )
        for group, visit, of_group, of_tokens in zip(
            rollout.groups, visit_weights(rollout), values, tokens, strict=True
        )
    ]


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
    shapes = [{agent: values.shape for agent, values in group.values.items()} for group in groups]
    actual = [{agent: np.shape(values) for agent, values in found.items()} for found in compared]
    if actual != shapes:
        raise ValueError(
            f"{algorithm.name}.advantages must return a mapping from agent to an array for each group, with the "
            f"shapes of `values`: expected {shapes}, got {actual}"
        )
