"""Scores in place of rewards; without torch, as exports need them too."""

from __future__ import annotations

from dataclasses import replace

from llm_decpomdp.algorithms.rollouts.rollout import Rollout


def use_scores_as_rewards(rollout: Rollout) -> Rollout:
    """Return a rollout, and what it is compared with, as a learner of scores is given them: rewarded by them."""
    groups = tuple(replace(group, rewards=group.scores) for group in rollout.groups)
    comparator = None if rollout.comparator is None else use_scores_as_rewards(rollout.comparator)
    return replace(rollout, groups=groups, comparator=comparator)
