"""Scores in place of rewards; without torch, as exports need them too."""

from __future__ import annotations

from dataclasses import replace

from llm_decpomdp.algorithms.rollouts.rollout import Rollout


def by_score(rollout: Rollout) -> Rollout:
    """Return a rollout as a learner of scores is given it: rewarded by them."""
    groups = tuple(replace(group, rewards=group.scores) for group in rollout.groups)
    return replace(rollout, groups=groups)
