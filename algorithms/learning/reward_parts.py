"""Parts of the reward: components that are compared one by one, and own points of single agents.

`group_advantages` calls `sum_of_parts` with `reward_parts=normalize_then_sum`, and `group_values` calls
`returns_with_points` with an `own_weight`. `Algorithm.check` calls `check_parts`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from llm_decpomdp.algorithms.learning.advantages import (
    GroupValues,
    Returns,
    ValueTargets,
    compute_advantages,
    none,
    returns,
)
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions, UpdateOptions
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.learning.algorithm import Algorithm


def returns_with_points(
    rollout: Rollout, agents: Collection[str], options: LearnerOptions
) -> ValueTargets:
    """Return the returns of each agent, its own points included, for each group of a rollout."""
    weight, discount = options.own_weight, options.discount
    return {agent: returns(_add_own_points(rollout, agent, weight), discount) for agent in agents}


def _add_own_points(rollout: Rollout, agent: str, weight: float) -> Rollout:
    """Return a rollout whose rewards are the team's plus `weight` times the own points of an agent.

    Own points are also earned on turns on which the agent does not act.
    """
    groups = []
    for group in rollout.groups:
        points = group.own.get(agent, (0.0,) * len(group.rewards))
        pairs = zip(group.rewards, points, strict=True)
        rewards = [reward + weight * point for reward, point in pairs]
        groups.append(replace(group, rewards=tuple(rewards)))
    return replace(rollout, groups=tuple(groups))


def sum_of_parts(
    rollout: Rollout,
    algorithm: Algorithm,
    options: LearnerOptions,
    values_of: Callable[[Rollout, LearnerOptions], list[GroupValues]],
) -> list[dict[str, Returns]]:
    """Return the sum of the normalized advantages of each component of the reward (GDPO, arXiv 2601.05242).

    An agent's own points are one more component, with the weight `own_weight`. Rewards without components in the
    infos are one component.

    Args:
        rollout: As sampled.
        algorithm: Compares the values of each component.
        options: Those of the learner.
        values_of: From a rollout to the values of its groups, by `group_values`.

    Returns:
        For each group the advantages (G,) by agent.

    Raises:
        ValueError: If `Algorithm.advantages` returns another shape than that of the values, or the infos of steps
            have different components.
    """

    def rewarded(rewards: Callable[[Group], Sequence[float]]) -> Rollout:
        groups = (replace(group, rewards=tuple(rewards(group))) for group in rollout.groups)
        return replace(rollout, groups=tuple(groups))

    def component(name: str) -> Rollout:
        return rewarded(lambda group: [info[name] for info in group.infos])

    names = component_names(rollout)
    of_part = replace(options, normalize_advantages=True, reward_parts="sum", own_weight=0.0)
    parts = [(part, 1.0, of_part) for part in ([*map(component, names)] or [rollout])]
    if options.own_weight:
        without_reward = rewarded(lambda group: (0.0,) * len(group.joint))
        # The weight counts after the normalization, which would divide it away.
        parts.append((without_reward, options.own_weight, replace(of_part, own_weight=1.0)))
    totals: list[dict[str, Returns]] = [{} for _ in rollout.groups]
    for part, weight, part_options in parts:
        groups = values_of(part, part_options)
        found = compute_advantages(algorithm, groups, part_options)
        for total, of_group in zip(totals, found, strict=True):
            for agent, values in of_group.items():
                scaled = weight * values
                total[agent] = total[agent] + scaled if agent in total else scaled
    return totals


def component_names(rollout: Rollout) -> list[str]:
    """Return the keys of the reward's components in the infos, `reward/...`, which all steps must have."""
    infos = [info for group in rollout.groups for info in group.infos]
    names = [[key for key in info if key.startswith("reward/")] for info in infos]
    mismatch = next((of for of in names if {*of} != {*names[0]}), None)
    if mismatch is not None:
        raise ValueError(
            f"reward_parts=normalize_then_sum compares each component of the reward in all steps from "
            f"{rollout.start}, and the infos of some have {names[0]}, of others {mismatch}: let the environment "
            "give all of them in each step, or set reward_parts=sum"
        )
    return names[0]


def check_parts(algorithm: Algorithm, options: UpdateOptions) -> None:
    """Check that an algorithm can learn from own points, and from each component of the reward by itself.

    Raises:
        ValueError: If own points have no effect, or a component cannot be compared by itself, and divided.
    """
    # Imported here, because algorithms import the check.
    from llm_decpomdp.algorithms.learning.algorithm import Algorithm as Base

    has_critic = algorithm.complete_options(options).critic.exists
    if has_critic and options.own_weight:
        raise ValueError(
            f"own_weight={options.own_weight} has no effect with a critic, which estimates team returns: "
            "set critic=none, or own_weight=0"
        )
    if options.reward_parts == "sum":
        return
    reasons = {
        "a critic estimates returns of the sum": has_critic,
        f"{algorithm.name} computes advantages of its own": type(algorithm).advantages
        is not Base.advantages,
        f"{algorithm.name} does not center returns": algorithm.baseline is none,
        "truncation.mode=penalise would count for each component": options.truncation.mode
        == "penalise",
    }
    for reason, holds in reasons.items():
        if holds:
            raise ValueError(f"reward_parts={options.reward_parts}: {reason}; set reward_parts=sum")
