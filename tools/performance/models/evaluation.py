"""Sampling of an evaluation: `python -m tools.performance.models.evaluation`.

One completion of each of many prompts of different lengths, which end at different lengths too: in one batch, as
without the option, with `continuous_batching`, and by `generate` of transformers in one padded batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

import torch
import typer
from transformers import GenerationConfig

from llm_decpomdp.agents.inference.options import Caching, Sampling
from llm_decpomdp.agents.inference.sampler import Prompt
from llm_decpomdp.agents.models.pretrained import OFFLINE_MODEL
from tools.performance.harness import trials
from tools.performance.models import workload
from tools.performance.models.workload import Case

FILE = "models/evaluation.py"

SECONDS = 100
"""Rough duration of a trial with the defaults."""

SHORTEST, LONGEST = 32, 768
"""Tokens of the shortest and of the longest prompt."""


def main(
    model: trials.Model = OFFLINE_MODEL,
    prompts: Annotated[int, typer.Option(min=2, help="Prompts.")] = 64,
    rows: Annotated[
        list[int], typer.Option(min=1, help="continuous_batching; give it again for more.")
    ] = [16, 32],  # noqa: B006
    dtype: trials.Dtypes = ["bfloat16"],  # noqa: B006
    new_tokens: trials.NewTokens = 128,
    rounds: trials.Rounds = 3,
    device: trials.Device = "cpu",
    tuned: trials.Tuned = True,
    threads: trials.Threads = None,
    json_file: trials.JsonFile = None,
) -> None:
    """Measure the sampling of many prompts of different lengths."""
    results = trials.Comparisons(rounds, trials.environment(tuned, threads))
    minutes = rounds * (2 + len(rows)) * len(dtype) * SECONDS / 60
    trials.progress(f"takes about {minutes:.0f} minutes with the offline model on two cores")
    with workload.endless_copy(model) as folder:
        case = {"model": folder, "group_size": prompts, "new_tokens": new_tokens, "device": device}
        for precision in dtype:
            case["dtype"] = precision
            variants = [
                trials.Variant(f"one batch, {precision}", FILE, "ours", {**case, "size": None}),
                *(
                    trials.Variant(
                        f"{size} rows, {precision}", FILE, "ours", {**case, "size": size}
                    )
                    for size in rows
                ),
                trials.Variant(f"transformers, {precision}", FILE, "transformers_generate", case),
            ]
            whole, *others, rival = results.compare(variants)
            for other in others:
                goal = trials.Goal(f"speed against one batch: {other.variant.name}", at_least=1.5)
                results.judgements.append(trials.speed(goal, other, whole))
            goal = trials.Goal(f"speed against transformers, {precision}")
            results.judgements.append(trials.speed(goal, others[0], rival))
    settings = {"model": model, "prompts": prompts, "new tokens": new_tokens, "rounds": rounds}
    results.finish("One completion of each prompt", {**settings, "device": device}, json_file)


def requests(case: Case, vocabulary: int) -> list[Prompt]:
    """Return prompts with one beginning and random tokens, of lengths in equal ratios, in random order.

    The limits of their completions are spread evenly up to the maximum, since no text ends by itself.
    """
    generator, number = torch.Generator().manual_seed(0), case.group_size
    lengths = torch.logspace(torch.tensor(SHORTEST).log2(), torch.tensor(LONGEST).log2(), number, 2)
    limits = torch.linspace(max(1, case.new_tokens // 8), case.new_tokens, number).long()
    limits = limits[torch.randperm(number, generator=generator)]
    ids = torch.randint(1000, 20_000, (number, LONGEST), generator=generator) % vocabulary
    ids[:, : SHORTEST // 2] = ids[0, : SHORTEST // 2]
    return [
        Prompt(
            ids[index, : int(lengths[index])].tolist(),
            Sampling(max_new_tokens=int(limits[index])),
            torch.Generator().manual_seed(index),
        )
        for index in torch.randperm(number, generator=generator).tolist()
    ]


def shorten(prompts: Sequence[Prompt]) -> list[Prompt]:
    """Return a few prompts with few tokens, for a warm-up."""
    return [replace(p, ids=p.ids[:8], sampling=Sampling(max_new_tokens=3)) for p in prompts[:4]]


def ours(size: int | None, **arguments: Any) -> Iterator[dict[str, Any]]:
    """Sample by the engine, as an evaluation does."""
    case = Case(**arguments)
    engine = replace(case, static_cache=None if size is None else False).policy().engine
    engine.caching = Caching(continuous_batching=size)
    prompts = requests(case, engine.model.config.vocab_size)
    for part in (shorten(prompts), prompts):
        rows = engine._sample_prompts(part, 1)
        yield {"units": sum(len(row.tokens) for row in rows)}


def transformers_generate(**arguments: Any) -> Iterator[dict[str, Any]]:
    """Sample by `generate` of transformers; all rows go on to the largest limit, tokens to their own count."""
    case = Case(**arguments)
    policy = case.policy("float32")
    policy.model.to(getattr(torch, case.dtype))
    prompts = requests(case, policy.model.config.vocab_size)
    options: Any = GenerationConfig  # whose constructor has no types
    for part in (shorten(prompts), prompts):
        width = max(len(prompt.ids) for prompt in part)
        ids = torch.tensor([[0] * (width - len(p.ids)) + [*p.ids] for p in part])
        mask = torch.tensor([[0] * (width - len(p.ids)) + [1] * len(p.ids) for p in part])
        limits = [prompt.sampling.max_new_tokens for prompt in part]
        policy.model.generate(
            input_ids=ids.to(case.device),
            attention_mask=mask.to(case.device),
            generation_config=options(
                do_sample=True, top_k=0, max_new_tokens=max(limits), pad_token_id=0
            ),
        )
        yield {"units": sum(limits)}


if __name__ == "__main__":
    trials.run(main)
