"""Ways to sample G completions of a prompt; each runs in a process of its own (see `trials.py`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from llm_decpomdp.agents.inference.sampling import Sampling
from llm_decpomdp.agents.models.causal_lm import CausalLM

WARM_UP_TOKENS = 4


def ours(
    model: str, prompt: str, group_size: int, new_tokens: int, dtype: str, device: str
) -> dict[str, Any]:
    """`CausalLM.generate`, with the time of rounding its float32 weights."""
    policy = CausalLM.from_pretrained(model, compute_dtype=dtype, device=device)

    def generate(limit: int) -> int:
        policy.sampling = Sampling(max_new_tokens=limit)
        return sum(len(c.tokens) for c in policy.generate([prompt], group_size)[0])

    return _timed(generate, new_tokens)


def transformers_generate(
    model: str, prompt: str, group_size: int, new_tokens: int, dtype: str, device: str
) -> dict[str, Any]:
    """`generate(num_return_sequences=G)` of transformers, with weights in `dtype`."""
    policy = CausalLM.from_pretrained(model, compute_dtype="float32", device=device)
    end = torch.tensor(sorted(ends(policy)))
    ids = torch.tensor([policy.encode(prompt)], device=policy.model.device)
    policy.model.to(getattr(torch, dtype))

    def generate(limit: int) -> int:
        rows = policy.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            max_new_tokens=limit,
            num_return_sequences=group_size,
            pad_token_id=policy.tokenizer.pad_token_id or 0,
        )[:, ids.shape[1] :].cpu()
        before = torch.isin(rows, end).int().cumsum(1) - torch.isin(rows, end).int()
        return int((before == 0).sum())  # up to the first end, which counts

    return _timed(generate, new_tokens)


def ends(policy: CausalLM) -> set[int]:
    """The tokens at which transformers' `generate` stops."""
    configured = policy.model.generation_config.eos_token_id
    return set(configured if isinstance(configured, list) else [configured])


def _timed(generate: Callable[[int], int], new_tokens: int) -> dict[str, Any]:
    torch.manual_seed(0)
    generate(min(WARM_UP_TOKENS, new_tokens))
    begin, cpu = time.perf_counter(), time.process_time()
    tokens = generate(new_tokens)  # which ends with a copy to the CPU, so that nothing is pending
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    return {"tokens": tokens, "seconds": {"sampling": seconds}, "cpu_seconds": cpu, "figures": {}}
