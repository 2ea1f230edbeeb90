"""Ways to learn from G siblings: forward and backward; each runs in a process of its own (see `host.py`).

All do the same work: the gradient of the same loss of the same tokens, which their norms show.
Letters: R rows (all prompts' siblings), P prompt tokens, T completion tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.policy import Completion
from tools.performance.models.workload import Case

Group = tuple[str, list[list[int]]]
"""Prompt, and the tokens of its completions."""


def ours(**arguments: Any) -> Iterator[dict[str, Any]]:
    """Learn by `CausalLM.log_probs`, a group at a time, as the learner calls it."""
    case = Case(**arguments)
    policy = case.policy()

    def learn(groups: Sequence[Group]) -> None:
        for prompt, rows in groups:
            completions = [Completion("", tuple(row)) for row in rows]
            log_probs, mask = policy.log_probs(prompt, completions)
            _backward((log_probs * mask).sum(1))

    yield from _twice(policy, learn, synthetic(policy, case))


def padded(together: bool, **arguments: Any) -> Iterator[dict[str, Any]]:
    """Learn from rows of prompt and completion in one padded batch, with logits of completions only.

    All groups make one batch if `together`; else each makes one of its own.
    """
    case = Case(**arguments)
    policy = case.policy()

    def learn(groups: Sequence[Group]) -> None:
        for batch in [groups] if together else [[group] for group in groups]:
            rows = [
                (policy.encode(prompt), row) for prompt, completions in batch for row in completions
            ]
            with _autocast(case):
                sums = padded_sums(policy.model, rows)
            _backward(*torch.split(sums, case.group_size))

    yield from _twice(policy, learn, synthetic(policy, case))


def one_by_one(**arguments: Any) -> Iterator[dict[str, Any]]:
    """Learn by a forward pass for each row, with all of its logits, and one backward pass for a group."""
    case = Case(**arguments)
    policy = case.policy()

    def learn(groups: Sequence[Group]) -> None:
        for prompt, completions in groups:
            start = policy.encode(prompt)
            sums = []
            for row in completions:
                ids = torch.tensor([[*start, *row[:-1]]], device=case.device)
                with _autocast(case):
                    logits = policy.model(input_ids=ids, use_cache=False).logits[0]
                log_probs = logits[len(start) - 1 :].float().log_softmax(-1)  # (T, V)
                sums.append(
                    log_probs.gather(1, torch.tensor(row, device=case.device)[:, None]).sum()
                )
            _backward(torch.stack(sums))

    yield from _twice(policy, learn, synthetic(policy, case))


def padded_sums(model: Any, rows: Sequence[tuple[list[int], list[int]]]) -> Tensor:
    """Return the log-probability of each row's completion, (R,), by one padded batch."""
    width = max(len(prompt) + len(row) for prompt, row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask, targets = torch.zeros_like(ids), torch.zeros_like(ids).bool()
    for index, (prompt, row) in enumerate(rows):
        end = len(prompt) + len(row)
        ids[index, :end] = torch.tensor([*prompt, *row])
        mask[index, :end] = 1
        targets[index, len(prompt) : end] = True
    ids, mask, targets = (tensor.to(model.device) for tensor in (ids, mask, targets))
    hidden = model.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    logits = model.get_output_embeddings()(hidden[:, :-1][targets[:, 1:]]).float()
    log_probs = logits.log_softmax(-1).gather(1, ids[targets][:, None])[:, 0]
    lengths = targets.sum(1).tolist()
    return torch.stack([part.sum() for part in log_probs.split(lengths)])


def _autocast(case: Case) -> torch.autocast:
    return torch.autocast(case.device, torch.bfloat16, enabled=case.dtype == "bfloat16")


def synthetic(policy: CausalLM, case: Case) -> list[Group]:
    """Return completions of random tokens, with lengths evenly from a quarter of the longest up to it."""
    generator = torch.Generator().manual_seed(0)
    vocabulary = policy.model.config.get_text_config().vocab_size
    shortest = max(1, case.new_tokens // 4)
    steps = torch.linspace(shortest, case.new_tokens, case.group_size).round().int().tolist()
    return [
        (prompt, [torch.randint(vocabulary, (n,), generator=generator).tolist() for n in steps])
        for prompt in case.prompts
    ]


def _backward(*groups: Tensor) -> None:
    """Compute the gradient of the groups' losses, with advantages that alternate."""
    signs = torch.tensor([1.0, -1.0], device=groups[0].device)
    losses = [-(signs.repeat(len(sums))[: len(sums)] * sums).mean() for sums in groups]
    torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]


def _twice(
    policy: CausalLM, learn: Callable[[Sequence[Group]], None], groups: Sequence[Group]
) -> Iterator[dict[str, Any]]:
    """Learn from the first tokens of each row, then from all."""
    learn([(prompt, [row[:2] for row in rows]) for prompt, rows in groups])
    policy.model.zero_grad(set_to_none=False)
    yield {"units": sum(len(rows) for _, rows in groups)}
    learn(groups)
    gradients = [p.grad for p in policy.parameters() if p.grad is not None]
    norm = float(torch.nn.utils.get_total_norm(gradients))
    tokens = sum(len(row) for _, rows in groups for row in rows)
    yield {"units": tokens, "figures": {"gradient norm": norm}}
