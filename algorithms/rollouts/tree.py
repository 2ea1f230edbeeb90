"""Trees: the rollout plan in which every joint sample of each turn goes on.

Each of them leads to a group of its own on the next turn, so that its return can be estimated from what
follows. J joint samples a group (G if aligned, G^N if crossed) cost J + J^2 + ... + J^T over T turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.joint import joint_samples
from llm_decpomdp.algorithms.rollouts.long_prompts import naming
from llm_decpomdp.algorithms.rollouts.rollout import (
    Group,
    Outcome,
    Parent,
    Rollout,
    Start,
    Stopwatch,
    begin,
    check_team,
    sample,
    step,
)
from llm_decpomdp.policy import Completion, Team


def rollout_trees(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    *,
    group_size: int,
    joint_mode: str = "aligned",
    early_termination_threshold: float | None = None,
    stopwatch: Stopwatch | None = None,
) -> list[Rollout]:
    """Grow one tree from each start, all of them turn by turn.

    Args:
        env: Any text environment; it is reset, and played in branches of it.
        team: A policy for each agent. Agents with the same policy object are sampled in one batch.
        starts: The first state of each tree.
        group_size: Completions of each agent in a group (G), at least 1.
        joint_mode: `aligned` plays the g-th completions of all agents together, `cross` each with each.
        early_termination_threshold: A group whose mean reward reaches this value leads to no other;
            `None` stops none.
        stopwatch: Adds up the seconds spent `sampling` (policies) and `stepping`
            (environment).

    Raises:
        KeyError: If an agent has no policy, or `joint_mode` is unknown.
        TypeError: If a prompt isn't a text.
        ValueError: If the agents' rewards differ, or some agents leave before the others.
    """
    check_team(env, team, group_size)
    joint = joint_samples(joint_mode, group_size, len(team))
    clock = stopwatch if stopwatch is not None else Stopwatch()
    trees = [_Tree(start) for start in starts]
    with clock("stepping"):
        front = [_Node(tree, None, *begin(env, tree.start)) for tree in trees]
    while front := [node for node in front if node.prompts]:
        envs, prompts = [node.env for node in front], [node.prompts for node in front]
        with clock("sampling"), naming(team, [node.tree.start for node in front], prompts):
            samples = sample(team, envs, prompts, group_size)
        with clock("stepping"):
            results = step(envs, samples, [joint] * len(front))
        grown: list[_Node] = []
        for node, completions, outcomes in zip(front, samples, results, strict=True):
            grown += node.grow(completions, outcomes, joint, early_termination_threshold)
        front = grown
    return [Rollout(tree.start, tuple(tree.groups)) for tree in trees]


@dataclass
class _Tree:
    start: Start
    groups: list[Group] = field(default_factory=list)


@dataclass
class _Node:
    """A state that a group will be sampled from."""

    tree: _Tree
    parent: Parent | None
    env: TextEnv
    prompts: dict[str, str]  # empty where the episode is over

    def grow(
        self,
        completions: dict[str, tuple[Completion, ...]],
        outcomes: Sequence[Outcome],
        joint: tuple[tuple[int, ...], ...],
        threshold: float | None,
    ) -> list[_Node]:
        """Add the group to the tree; return the states that it leads to."""
        groups = self.tree.groups
        rewards = tuple(outcome.reward for outcome in outcomes)
        goes_on = any(outcome.prompts for outcome in outcomes)
        enough = threshold is not None and float(np.mean(rewards)) >= threshold
        index = len(groups)
        groups.append(
            Group(
                turn=0 if self.parent is None else groups[self.parent.group].turn + 1,
                parent=self.parent,
                prompts=self.prompts,
                completions=completions,
                joint=joint,
                rewards=rewards,
                infos=tuple(outcome.info for outcome in outcomes),
                stopped_early=goes_on and enough,
            )
        )
        if enough:
            return []
        return [
            _Node(self.tree, Parent(index, sample), outcome.env, outcome.prompts)
            for sample, outcome in enumerate(outcomes)
        ]
