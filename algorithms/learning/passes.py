"""Passes of several prompts, with the option `tokens_per_pass`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from llm_decpomdp.algorithms.learning.losses import LossItem
from llm_decpomdp.policy import TrainablePolicy, policy_attribute


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
        items, total = last.get(id(policy), ([], tokens))
        if total + size > tokens:
            items, total = [], 0
            passes.append(items)
        items += microbatch
        last[id(policy)] = items, total + size
    return passes
