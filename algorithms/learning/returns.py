"""Returns of joint samples, and values of the completions in them.

Letters: G completions of an agent, J joint samples of a group.
"""

from __future__ import annotations

import numpy as np

from llm_decpomdp.algorithms.learning.baselines import Returns
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout


def returns(rollout: Rollout, discount: float = 1.0) -> list[Returns]:
    """Compute the return of each joint sample, of shape (J,), for each group of a rollout.

    In a tree a joint sample earns its reward and the mean of what follows:

        R_j = r_j + discount * (1/J') sum_j' R_j'      over the J' joint samples of the group it led to

    and r_j where it led to none. In a chain only one joint sample of a group goes on, so that what
    follows says nothing about its siblings: R_j = r_j, whatever the discount.
    """
    values = [np.array(group.rewards, dtype=np.float64) for group in rollout.groups]
    for group, value in zip(reversed(rollout.groups), reversed(values), strict=True):
        if group.parent is not None and rollout.groups[group.parent.group].chosen is None:
            values[group.parent.group][group.parent.sample] += discount * value.mean()
    return values


def partner_returns(group: Group, joint_returns: Returns, agent: int) -> Returns:
    """Return what each completion of an agent earned beside each of the K choices of its partners, (G, K).

    K is 1 where joint samples are aligned, and G^(N-1) where they are crossed. Where partners were drawn, joint
    samples that were played for other agents do not count, though they may contain the completion: in each
    column all completions have the same partners.

    Args:
        group: The group.
        joint_returns: (J,).
        agent: Position of the agent among those of the group.
    """
    if not group.anchors:
        indices = [sample[agent] for sample in group.joint]
        by_completion: Returns = joint_returns[np.argsort(indices, kind="stable")]
        return by_completion.reshape(max(indices) + 1, -1)
    position = {sample: j for j, sample in enumerate(group.joint)}
    size = 1 + max(sample[agent] for sample in group.joint)
    cells = [
        [position[(*anchor[:agent], g, *anchor[agent + 1 :])] for anchor in group.anchors]
        for g in range(size)
    ]
    table: Returns = joint_returns[np.array(cells)]
    return table


def visit_weights(rollout: Rollout) -> list[float]:
    """State-visitation weight of each group: the share of the episodes that reach it.

    1 at the start. In a tree, and among whole episodes, each of the J joint samples of a group takes 1/J of its
    group's weight. In a chain the chosen joint sample represents all joint samples after which the episode goes
    on. So the weight of the next group is the weight of this group, times the share of these joint samples. With
    these weights the expected gradient of a turn is the expectation over all episodes that reach it (policy
    gradient theorem, Sutton et al. 2000), also if episodes end at different turns.
    """
    weights: list[float] = []
    for group in rollout.groups:
        if group.parent is None:
            weights.append(1.0)
            continue
        before = rollout.groups[group.parent.group]
        weight = weights[group.parent.group]
        weights.append(
            weight / len(before.joint) if before.chosen is None else weight * before.going_share
        )
    return weights
