"""Ways to sample G completions of a prompt; each runs in a process of its own (see `host.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.models.causal_lm import CausalLM
from tools.performance.models.workload import Case

WARM_UP_TOKENS = 4


def ours(**arguments: Any) -> Iterator[dict[str, Any]]:
    """Sample by `CausalLM.generate`, with the time of rounding its float32 weights."""
    case = Case(**arguments)
    policy = case.policy()
    torch.manual_seed(0)
    for limit in (min(WARM_UP_TOKENS, case.new_tokens), case.new_tokens):
        policy.sampling = Sampling(max_new_tokens=limit)
        (group,) = policy.generate(case.prompts, case.group_size)
        yield {"units": sum(len(completion.tokens) for completion in group)}


def transformers_generate(**arguments: Any) -> Iterator[dict[str, Any]]:
    """Sample by `generate(num_return_sequences=G)` of transformers, with weights in `dtype`."""
    case = Case(**arguments)
    policy = case.policy("float32")
    end = torch.tensor(sorted(ends(policy)))
    ids = torch.tensor([policy.encode(*case.prompts)], device=policy.model.device)
    policy.model.to(getattr(torch, case.dtype))
    torch.manual_seed(0)
    for limit in (min(WARM_UP_TOKENS, case.new_tokens), case.new_tokens):
        rows = policy.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            max_new_tokens=limit,
            num_return_sequences=case.group_size,
            pad_token_id=policy.tokenizer.pad_token_id or 0,
        )[:, ids.shape[1] :].cpu()
        before = torch.isin(rows, end).int().cumsum(1) - torch.isin(rows, end).int()
        yield {"units": int((before == 0).sum())}  # up to the first end, which counts


def ends(policy: CausalLM) -> set[int]:
    """Return the tokens at which transformers' `generate` stops."""
    configured = policy.model.generation_config.eos_token_id
    return set(configured if isinstance(configured, list) else [configured])
