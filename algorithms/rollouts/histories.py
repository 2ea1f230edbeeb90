"""Histories of agents whose policies read them (`history=chat`): their prompts are dialogues."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from llm_decpomdp.algorithms.rollouts.rollout import Group, Parent
from llm_decpomdp.policy import Dialogue, DialogueTurn, turns_after


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


def restore_histories(groups: Sequence[Group], agents: Collection[str]) -> tuple[Group, ...]:
    """Return the groups of a rollout, whose prompts are texts, with the histories of some agents."""
    if not agents:
        return tuple(groups)
    restored: list[Group] = []
    for group in groups:
        prompts = add_history(group.prompts, restored, group.parent, agents)
        restored.append(replace(group, prompts=prompts))
    return tuple(restored)
