"""The forward passes of an update: which policy computes log-probabilities of which completions, in which order.

A pass of a sharded model gathers its weights, so all processes take part: each makes equally many passes, in the
same order. A process without completions for a pass computes a dummy completion with weight 0. If no weights are
sharded, one pass serves several groups with the same prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from llm_decpomdp.agents.models.weights import has_shards
from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.advantages import GroupAdvantages
from llm_decpomdp.policy import Completion, TrainablePolicy


class LossItem(NamedTuple):
    """The completions of one agent in one group."""

    position: int
    """Position of the group among those that this process learns from."""
    agent: str
    """The agent."""
    source: GroupAdvantages
    """The group, with its advantages."""
    counts: bool = True
    """False for a dummy, whose weight is 0."""

    @property
    def prompt(self) -> str:
        """The agent's prompt."""
        return self.source.group.prompts[self.agent]

    @property
    def completions(self) -> tuple[Completion, ...]:
        """The agent's completions."""
        return self.source.group.completions[self.agent]


def loss_items(
    groups: Sequence[GroupAdvantages],
    agents: Mapping[str, TrainablePolicy],
    include_zeros: bool = False,
) -> list[LossItem]:
    """Return the loss items of this process, in order; with sharded weights, as many as any process has.

    Args:
        groups: The groups that this process learns from.
        agents: The agents that learn, and their policies, in the same order in all processes.
        include_zeros: Whether agents learn even if all their advantages are 0.
    """
    own = [
        LossItem(position, agent, group)
        for position, group in enumerate(groups)
        for agent, advantages in group.advantages.items()
        if include_zeros or advantages.any()
    ]
    sharded = {agent for agent, policy in agents.items() if has_shards(policy.parameters())}
    return _align_processes(own, list(agents), sharded) if sharded else own


def group_by_prompt(items: Sequence[LossItem]) -> list[list[LossItem]]:
    """Return microbatches: items with one agent and one prompt, which one forward pass can compute.

    In whole episodes, groups of one completion often share their prompt. A pass of an agent's policy has at most
    as many characters as that of its largest group, with the prompt before each completion.
    """
    # Merging must not need more memory than the largest group by itself.
    limits: dict[str, int] = {}
    for item in items:
        limits[item.agent] = max(limits.get(item.agent, 0), _padded_characters([item]))
    microbatches: list[list[LossItem]] = []
    open_ones: dict[tuple[str, str], list[LossItem]] = {}
    for item in items:
        key = item.agent, item.prompt
        microbatch = open_ones.get(key)
        if microbatch is None or _padded_characters([*microbatch, item]) > limits[item.agent]:
            microbatch = open_ones[key] = []
            microbatches.append(microbatch)
        microbatch.append(item)
    return microbatches


def _padded_characters(items: Sequence[LossItem]) -> int:
    """Return the number of characters of items with one prompt in a padded batch."""
    texts = [completion.text for item in items for completion in item.completions]
    return len(texts) * (len(items[0].prompt) + max(map(len, texts)))


def _align_processes(
    own: Sequence[LossItem], agents: Sequence[str], sharded: set[str]
) -> list[LossItem]:
    """Add dummies for items of sharded policies that only other processes have."""
    by_key = {(item.position, item.agent): item for item in own}
    dummies = {item.agent: _dummy(item) for item in reversed(own) if item.agent in sharded}
    gathered = processes.gather([(list(by_key), dummies)])
    all_keys = {key for keys, _ in gathered for key in keys if key[1] in sharded} | by_key.keys()
    any_dummy = {agent: item for _, of_process in gathered for agent, item in of_process.items()}
    order = sorted(all_keys, key=lambda key: (key[0], agents.index(key[1])))
    return [by_key[key] if key in by_key else any_dummy[key[1]] for key in order]


def _dummy(item: LossItem) -> LossItem:
    """Return an item with one completion and weight 0, which any process can compute."""
    agent, source = item.agent, item.source
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
