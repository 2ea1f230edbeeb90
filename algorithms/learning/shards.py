"""Passes of models in shards, whose weights all processes gather at the same time, and their optimizers' state.

All processes make equally many passes, in the same order. A process without completions for a pass computes a
dummy completion with weight 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from llm_decpomdp.agents.models.weights import cut_as, has_shards, is_shard, whole
from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.passes import LossItem
from llm_decpomdp.policy import TrainablePolicy, policy_attribute, shared_engine


def align_processes(
    own: Sequence[LossItem], policies: Mapping[str, TrainablePolicy]
) -> list[LossItem]:
    """Add dummies for items of sharded policies that only other processes have.

    Args:
        own: The items of this process, in order.
        policies: Agent to policy, in the same order in all processes.

    Returns:
        As many items of each sharded policy as any process has, in the same order.
    """
    agents = list(policies)
    sharded = {agent for agent, policy in policies.items() if has_shards(policy.parameters())}
    by_key = {(item.position, item.agent): item for item in own}
    # Reversed, so that the first item of an agent replaces the later ones.
    dummies = {item.agent: _dummy(item) for item in reversed(own) if item.agent in sharded}
    gathered = processes.gather([(list(by_key), dummies)])
    all_keys = {key for keys, _ in gathered for key in keys if key[1] in sharded} | by_key.keys()
    any_dummy = {agent: item for _, of_process in gathered for agent, item in of_process.items()}
    order = sorted(all_keys, key=lambda key: (key[0], agents.index(key[1])))
    return [by_key[key] if key in by_key else any_dummy[key[1]] for key in order]


def _dummy(item: LossItem) -> LossItem:
    """Return an item with one completion and weight 0, which any process can compute."""
    agent, source = item.agent, item.group
    group = replace(
        source.group,
        prompts={agent: source.group.prompts[agent]},
        completions={agent: source.group.completions[agent][:1]},
        drafts=(),
        view=None,
    )
    advantages = {agent: source.advantages[agent][:1]}
    source = replace(source, group=group, weight=0.0, advantages=advantages, values={})
    return LossItem(item.position, agent, source, counts=False)


def announce_pass(
    passes: Sequence[Sequence[LossItem]], place: int, agents: Mapping[str, TrainablePolicy]
) -> None:
    """Tell the engine of a pass whether it is its last one in an update, if it asks."""
    # Agents may share an engine.
    engine, *later = [shared_engine(agents[items[0].agent]) for items in passes[place:]]
    prepare = policy_attribute(engine, "prepare_backward")
    if prepare is not None:
        prepare(all(engine is not further for further in later))


def gather_whole(state: Any, keep: bool) -> Any:
    """Replace the shards in nested containers by whole tensors on the CPU, or with `keep=False` by empty ones."""
    if isinstance(state, torch.Tensor):
        if not is_shard(state):
            return state
        full = whole(state)
        return full.cpu() if keep else full.new_empty(0)
    if isinstance(state, Mapping):
        return {key: gather_whole(value, keep) for key, value in state.items()}
    return [gather_whole(value, keep) for value in state] if isinstance(state, list) else state


def cut_moments(adamw: Mapping[str, Any], optimizer: torch.optim.AdamW) -> dict[str, Any]:
    """Return the state of AdamW with its moments cut like the sharded weights of an optimizer."""
    # AdamW numbers weights in the order of its groups.
    order = [weight for group in optimizer.param_groups for weight in group["params"]]
    moments = {
        index: {
            # The number of steps is a scalar, which every process keeps.
            name: cut_as(value, order[index]) if value.shape == order[index].shape else value
            for name, value in of_weight.items()
        }
        for index, of_weight in adamw["state"].items()
    }
    return {**adamw, "state": moments}
