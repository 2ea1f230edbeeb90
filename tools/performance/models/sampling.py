"""Sampling compared with transformers: `python -m tools.performance.models.sampling`.

G completions of one prompt: `CausalLM.generate` against `generate(num_return_sequences=G)`, with equal sampling
settings and completions of the maximum length. The floor has only the matrix products of the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import torch
import typer
from transformers import GenerationConfig

from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.models.pretrained import OFFLINE_MODEL
from tools.performance.harness import trials
from tools.performance.models import workload
from tools.performance.models.workload import Case

FILE = "models/sampling.py"

SECONDS = 25
"""Rough duration of a trial with the defaults."""


def goal(group_size: int, dtype: str) -> trials.Goal:
    """Return the goal of speed relative to transformers; the bound is for the case that was agreed on."""
    name = f"speed against transformers' generate, {dtype}, G = {group_size}"
    return trials.Goal(name, at_least=1.5 if (group_size, dtype) == (16, "bfloat16") else None)


def main(
    model: trials.Model = OFFLINE_MODEL,
    group_size: Annotated[
        list[int], typer.Option(min=1, help="Completions (G); give it again for more.")
    ] = [4, 16],  # noqa: B006
    dtype: trials.Dtypes = ["bfloat16", "float32"],  # noqa: B006
    new_tokens: trials.NewTokens = 128,
    rounds: trials.Rounds = 3,
    device: trials.Device = "cpu",
    tuned: trials.Tuned = True,
    threads: trials.Threads = None,
    json_file: trials.JsonFile = None,
) -> None:
    """Measure sampling, and judge it by its goal."""
    minutes = rounds * 3 * len(group_size) * len(dtype) * SECONDS / 60
    trials.progress(f"takes about {minutes:.0f} minutes with the offline model on two cores")
    results = trials.Comparisons(rounds, trials.environment(tuned, threads))
    env = workload.environment()
    prompt = workload.prompts(env, workload.task_ids(env, 1)[0])[env.possible_agents[-1]]
    common = {"prompts": [prompt], "new_tokens": new_tokens, "device": device}
    with workload.endless_copy(model) as folder:
        for precision in dtype:
            for size in group_size:
                case = {"model": folder, "group_size": size, "dtype": precision, **common}
                label = f"{precision}, G = {size}"
                variants = [
                    trials.Variant(f"ours, {label}", FILE, "ours", case),
                    trials.Variant(f"transformers, {label}", FILE, "transformers_generate", case),
                    trials.Variant(f"floor, {label}", "models/product_floors.py", "sampling", case),
                ]
                sampler, rival, floor = results.compare(variants)
                results.judgements += [
                    trials.speed(goal(size, precision), sampler, rival),
                    trials.speed(trials.Goal(f"speed against the floor, {label}"), sampler, floor),
                ]
    settings = {"model": model, "new tokens": new_tokens, "rounds": rounds, "device": device}
    results.finish("G completions of one prompt", settings, json_file)


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
    # transformers computes in the type of the weights.
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


def transformers_continuous(**arguments: Any) -> Iterator[dict[str, Any]]:
    """Sample by `generate_batch` of transformers, which batches continuously, with weights in `dtype`."""
    case = Case(**arguments)
    policy = case.policy("float32")
    policy.model.to(getattr(torch, case.dtype))
    ids = [policy.encode(prompt) for prompt in case.prompts for _ in range(case.group_size)]
    torch.manual_seed(0)
    for limit in (min(WARM_UP_TOKENS, case.new_tokens), case.new_tokens):
        rows = policy.model.generate_batch(
            ids,
            GenerationConfig(  # type: ignore[no-untyped-call]
                do_sample=True,
                temperature=1.0,
                top_p=1.0,
                top_k=0,
                max_new_tokens=limit,
                eos_token_id=sorted(ends(policy)),
                pad_token_id=policy.tokenizer.pad_token_id or 0,
            ),
        )
        yield {"units": sum(len(row.generated_tokens) for row in rows.values())}


def ends(policy: CausalLM) -> set[int]:
    """Return the tokens at which transformers' `generate` stops."""
    configured = policy.model.generation_config.eos_token_id
    return set(configured if isinstance(configured, list) else [configured])


if __name__ == "__main__":
    trials.run(main)
