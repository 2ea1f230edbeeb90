"""Items of a loss, and the passes that compute them: of one prompt, or of several with `tokens_per_pass`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from llm_decpomdp.algorithms.learning.advantages import GroupAdvantages
from llm_decpomdp.policy import Completion, TrainablePolicy, policy_attribute, to_messages


def check_passes(policies: Iterable[TrainablePolicy], tokens: int, is_sharded: bool) -> None:
    """Raise an error if `tokens_per_pass` has no effect.

    Raises:
        ValueError: If the policies are in shards.
        TypeError: If no policy can compute several prompts in one pass.
    """
    if is_sharded:
        raise ValueError(
            "all processes make the same passes of a model in shards, of one prompt each: set "
            "tokens_per_pass=null, or learner.fsdp_size=1"
        )
    if not any(
        policy_attribute(policy, "count_tokens")
        and policy_attribute(policy, "log_probs_of_prompts")
        for policy in policies
    ):
        raise TypeError(
            f"tokens_per_pass={tokens} needs policies that compute several prompts in one pass "
            "(log_probs_of_prompts, count_tokens), and the team has none: set tokens_per_pass=null"
        )


def fill_passes(
    microbatches: Sequence[list[LossItem]], agents: Mapping[str, TrainablePolicy], tokens: int
) -> list[list[LossItem]]:
    """Merge microbatches of one policy, in order, into passes of at most `tokens` tokens, or of one microbatch.

    Policies without `log_probs_of_prompts` compute one prompt in a pass.
    """
    passes: list[list[LossItem]] = []
    # Of each policy: its open pass, and the tokens in it.
    last: dict[int, tuple[list[LossItem], int]] = {}
    for microbatch in microbatches:
        policy = agents[microbatch[0].agent]
        count = policy_attribute(policy, "count_tokens")
        if count is None or policy_attribute(policy, "log_probs_of_prompts") is None:
            passes.append(microbatch)
            continue
        completions = [completion for item in microbatch for completion in item.completions]
        size = count(microbatch[0].prompt, completions)
        # A full pass by default, so that the first microbatch opens one.
        items, total = last.get(id(policy), ([], tokens))
        if total + size > tokens:
            items, total = [], 0
            passes.append(items)
        items += microbatch
        last[id(policy)] = items, total + size
    return passes


class LossItem(NamedTuple):
    """The completions of one agent in one group."""

    position: int  # of the group among those from which this process learns
    agent: str
    group: GroupAdvantages
    counts: bool = True  # False for a dummy, whose weight is 0

    @property
    def prompt(self) -> str:
        """Prompt of the agent."""
        return self.group.group.prompts[self.agent]

    @property
    def completions(self) -> tuple[Completion, ...]:
        """Completions of the agent."""
        return self.group.group.completions[self.agent]


def loss_items(groups: Sequence[GroupAdvantages], include_zeros: bool = False) -> list[LossItem]:
    """Return the loss items of groups, in order; with `include_zeros` agents learn from advantages of 0 too."""
    return [
        LossItem(position, agent, group)
        for position, group in enumerate(groups)
        for agent, advantages in group.advantages.items()
        if include_zeros or advantages.any()
    ]


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


def split_by_prompt(items: Sequence[LossItem]) -> list[list[LossItem]]:
    """Return the items of a pass in parts with one prompt each."""
    return [list(part) for _, part in groupby(items, key=lambda item: item.prompt)]


def _padded_characters(items: Sequence[LossItem]) -> int:
    """Return the number of characters of items with one prompt in a padded batch."""
    # Characters stand for tokens, which not every policy counts (`count_tokens`).
    texts = [completion.text for item in items for completion in item.completions]
    context = sum(len(message["content"]) for message in to_messages(items[0].prompt))
    return len(texts) * (context + max(map(len, texts)))
