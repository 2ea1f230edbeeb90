"""Rollouts: groups of joint samples, grown from a start.

A group is one decision of the team: every agent samples G completions for its prompt, and joint samples are made
of them, each played in a branch of the environment of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from llm_decpomdp.policy import Completion, Dialogue, DialogueTurn, turns_after

Completions = dict[str, tuple[Completion, ...]]
"""The group of each agent."""

Joint = tuple[tuple[int, ...], ...]
"""For each joint sample the index of each agent's completion, in the order of the agents."""


@dataclass(frozen=True)
class Start:
    """Arguments of `reset` for one episode. With neither field the environment's running generator decides."""

    seed: int | None = None
    """The seed of `reset`."""
    task_id: str | None = None
    """The option `task_id` of `reset`."""


class Parent(NamedTuple):
    """The joint sample that led to a group."""

    group: int
    """Position in the rollout of the group before."""
    sample: int
    """Index of the joint sample of that group which was played."""


class View(NamedTuple):
    """A state as a critic reads it, and no agent."""

    state: str
    """The environment's `state()`; empty if it has none."""
    prompts: Mapping[str, str]
    """The prompt of each agent."""


@dataclass(frozen=True)
class Group:
    """One decision: G completions of each agent, and the J joint samples that were made of them."""

    turn: int
    """Counted from 0."""
    parent: Parent | None
    """`None` at the start of an episode."""
    prompts: dict[str, str]
    """The prompt of each agent."""
    completions: Completions
    """G completions of each agent."""
    joint: Joint
    """The J joint samples."""
    rewards: tuple[float, ...]
    """The team's reward of each joint sample."""
    infos: tuple[dict[str, float], ...]
    """The numbers in the first agent's infos of each joint sample."""
    chosen: int | None = None
    """The joint sample that alone goes on or, after the last turn, stands for the group; `None` in a tree."""
    drafts: tuple[Completions, ...] = ()
    """Earlier answers to the prompts, which were not played."""
    stopped_early: bool = False
    """True if the mean reward reached the threshold while the episode could go on."""
    anchors: Joint = ()
    """Joint samples whose partners each completion of an agent meets; empty unless they were drawn."""
    view: View | None = None
    """The state before, if views are recorded."""
    views: tuple[View | None, ...] = ()
    """The state after each joint sample, if views are recorded; `None` where nothing follows, also as the group
    stopped early. Where a time limit cut the episode off, the state that it was cut off in."""
    scores: tuple[float, ...] = ()
    """The score of each joint sample by a reward model, if there is one."""
    ended: tuple[bool, ...] = ()
    """True for each joint sample after which the episode is over."""
    own: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Points of single agents for each joint sample, (J,), by agent; empty where the environment gives none."""

    @property
    def going_share(self) -> float:
        """The share of the joint samples after which the episode is not over."""
        return 1 - sum(self.ended) / len(self.joint)


@dataclass(frozen=True)
class Rollout:
    """All groups that were grown from one start."""

    start: Start
    groups: tuple[Group, ...]
    """Turn by turn, each after its parent."""
    final: Mapping[str, Any] | None = None
    """The episode along the chosen samples, where there are such and the environment records it."""
    pooled: bool = False
    """True if completions are compared with those of all groups of their turn: the rollout is several episodes."""
    comparator: Rollout | None = None
    """What another team has played from the same start, where pairs are made with its joint samples."""
    place: int = 0
    """Position of the start among those of its update, where bundles of starts are played; else 0."""
    dialogues: tuple[str, ...] = ()
    """Agents whose prompts have a history (`Dialogue`)."""

    @property
    def turns(self) -> list[list[Group]]:
        """The groups of each turn."""
        count = 1 + self.groups[-1].turn
        return [[group for group in self.groups if group.turn == turn] for turn in range(count)]

    @property
    def last(self) -> list[Group]:
        """The groups that led to no other."""
        parents = {group.parent.group for group in self.groups if group.parent is not None}
        return [group for index, group in enumerate(self.groups) if index not in parents]

    @property
    def stopped_early(self) -> float:
        """The share of the last groups that stopped early."""
        return float(np.mean([group.stopped_early for group in self.last]))


def add_history(
    prompts: Mapping[str, str],
    groups: Sequence[Group],
    parent: Parent | None,
    agents: Collection[str],
) -> dict[str, str]:
    """Return the environment's prompts after a joint sample of these groups, with histories for some agents."""
    histories = {agent: _history(agent, groups, parent) for agent in prompts if agent in agents}
    return {
        agent: Dialogue(text, histories[agent]) if histories.get(agent) else text
        for agent, text in prompts.items()
    }


def _history(
    agent: str, groups: Sequence[Group], parent: Parent | None
) -> tuple[DialogueTurn, ...]:
    """Return the turns of an agent up to a joint sample: those before its last answer, and this one."""
    while parent is not None:
        group = groups[parent.group]
        if agent in group.prompts:  # else it waited
            position = list(group.completions).index(agent)
            index = group.joint[parent.sample][position]
            return turns_after(group.prompts[agent], group.completions[agent][index])
        parent = group.parent
    return ()
