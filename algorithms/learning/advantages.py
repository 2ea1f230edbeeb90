"""Credit assignment: from rollouts to the advantage of every completion of every agent."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from llm_decpomdp.algorithms.learning.baselines import Baseline, Returns, advantages
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.learning.returns import completion_values, returns, visit_weights
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
) -> Iterator[GroupAdvantages]:
    """Yield the advantages and the loss weight of every group.

    A completion's value is the mean return of the joint samples that contain it, less
    `truncation_penalty` if it hit the token limit and the option `truncated` is `penalise`. An agent that skipped
    its prompt has said the same in all of them, nothing, and learns nothing; its team-mates learn as ever.

    Args:
        rollouts: As sampled.
        agents: The agents that learn.
        baseline: Subtracted from the values.
        options: Discount, normalisation and turn weights. A group's `weight` is its visit weight times its
            turn's factor.

    Raises:
        FloatingPointError: If a return isn't finite; names the start.
    """
    for rollout in rollouts:
        visits, all_returns = visit_weights(rollout), returns(rollout, options.discount)
        for group, visit, joint_returns in zip(rollout.groups, visits, all_returns, strict=True):
            if not math.isfinite(float(joint_returns.sum())):
                raise FloatingPointError(
                    f"a return isn't finite for {rollout.start}: {group.rewards}"
                )
            by_agent = {
                agent: advantages(
                    completion_values(group, joint_returns, position)
                    - _penalty(group, agent, options),
                    baseline,
                    normalize=options.normalize_advantages,
                )
                for position, (agent, completions) in enumerate(group.completions.items())
                if agent in agents and not completions[0].skipped
            }
            weight = visit * options.turn_weight(group.turn, group.stopped_early)
            yield GroupAdvantages(rollout.start, group, weight, by_agent)


def _penalty(group: Group, agent: str, options: LearnerOptions) -> Returns:
    if options.truncated != "penalise":
        return np.zeros(len(group.completions[agent]))
    truncated = [completion.truncated for completion in group.completions[agent]]
    return options.truncation_penalty * np.array(truncated, dtype=np.float64)
