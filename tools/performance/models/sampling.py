"""Sampling beside transformers: `python -m tools.performance.models.sampling`.

G completions of one prompt: `CausalLM.generate` against `generate(num_return_sequences=G)`, with equal sampling
settings and every completion as long as the limit allows. The floor is the model's matrix products alone.
"""

from __future__ import annotations

from typing import Annotated

import typer

from llm_decpomdp.agents.models.local_models import OFFLINE_MODEL
from tools.performance.harness.command import (
    Device,
    Dtypes,
    JsonFile,
    Model,
    NewTokens,
    Rounds,
    Threads,
    Tuned,
    run,
)
from tools.performance.harness.report import Goal, Report, speed
from tools.performance.harness.trials import (
    Variant,
    compare,
    environment,
    progress,
)
from tools.performance.models import workload

FILE = "models/sampling_variants.py"

SECONDS = 25
"""Rough duration of a trial with the defaults."""


def goal(group_size: int, dtype: str) -> Goal:
    """Return the goal of speed relative to transformers; the bound is for the case that was agreed on."""
    name = f"speed against transformers' generate, {dtype}, G = {group_size}"
    return Goal(name, at_least=1.5 if (group_size, dtype) == (16, "bfloat16") else None)


def main(
    model: Model = OFFLINE_MODEL,
    group_size: Annotated[
        list[int], typer.Option(min=1, help="Completions (G); give it again for more.")
    ] = [4, 16],  # noqa: B006
    dtype: Dtypes = ["bfloat16", "float32"],  # noqa: B006
    new_tokens: NewTokens = 128,
    rounds: Rounds = 3,
    device: Device = "cpu",
    tuned: Tuned = True,
    threads: Threads = None,
    json_file: JsonFile = None,
) -> None:
    """Measure sampling, and judge it by its goal."""
    minutes = rounds * 3 * len(group_size) * len(dtype) * SECONDS / 60
    progress(f"takes about {minutes:.0f} minutes with the offline model on two cores")
    variables = environment(tuned, threads)
    sections, judgements = [], []
    env = workload.environment()
    prompt = workload.prompts(env, workload.task_ids(env, 1)[0])[env.possible_agents[-1]]
    common = {"prompts": [prompt], "new_tokens": new_tokens, "device": device}
    with workload.endless_copy(model) as folder:
        for precision in dtype:
            for size in group_size:
                case = {"model": folder, "group_size": size, "dtype": precision, **common}
                label = f"{precision}, G = {size}"
                variants = [
                    Variant(f"ours, {label}", FILE, "ours", case),
                    Variant(f"transformers, {label}", FILE, "transformers_generate", case),
                    Variant(f"floor, {label}", "models/product_floors.py", "sampling", case),
                ]
                sampler, rival, floor = compare(variants, rounds, variables).values()
                sections.append([sampler, rival, floor])
                judgements.append(speed(goal(size, precision), sampler, rival))
                judgements.append(speed(Goal(f"speed against the floor, {label}"), sampler, floor))
    settings = {"model": model, "new tokens": new_tokens, "rounds": rounds, "device": device}
    report = Report("G completions of one prompt", settings, variables, sections, judgements)
    report.finish(json_file)


if __name__ == "__main__":
    run(main)
