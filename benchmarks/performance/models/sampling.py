"""Sampling beside transformers: `python -m llm_decpomdp.benchmarks.performance.models.sampling`.

G completions of one prompt: `CausalLM.generate` against `generate(num_return_sequences=G)`, with equal sampling
settings and every completion as long as the limit allows. The floor is the model's matrix products alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from llm_decpomdp.agents.models.offline import OFFLINE_MODEL
from llm_decpomdp.benchmarks.performance.harness.command_options import (
    Device,
    JsonFile,
    Model,
    NewTokens,
    Rounds,
    Threads,
    Tuned,
    show,
)
from llm_decpomdp.benchmarks.performance.harness.goals import Goal, Judgement
from llm_decpomdp.benchmarks.performance.harness.trial_tables import Report
from llm_decpomdp.benchmarks.performance.harness.trials import Variant, compare, environment, tell
from llm_decpomdp.benchmarks.performance.models import workload

FILE = "sampling_variants.py"

SECONDS = 25
"""About what a trial takes with the defaults."""


def goal(group_size: int, dtype: str) -> Goal:
    """Speed relative to transformers; the bound is for the case that was agreed on."""
    name = f"speed against transformers' generate, {dtype}, G = {group_size}"
    return Goal(name, "x", at_least=1.5 if (group_size, dtype) == (16, "bfloat16") else None)


def measure(
    model: str,
    group_sizes: Sequence[int],
    dtypes: Sequence[str],
    new_tokens: int,
    rounds: int,
    *,
    device: str = "cpu",
    tuned: bool = True,
    threads: int | None = None,
) -> Report:
    """Run everything.

    Raises:
        BenchmarkError: If a trial fails.
    """
    variables = environment(tuned, threads)
    sections, judgements = [], []
    env = workload.environment()
    prompt = workload.prompts(env, workload.task_ids(env, 1)[0])[env.possible_agents[-1]]
    with workload.endless_copy(model) as folder:
        for dtype in dtypes:
            for group_size in group_sizes:
                arguments = {
                    "model": folder,
                    "prompt": prompt,
                    "group_size": group_size,
                    "new_tokens": new_tokens,
                    "dtype": dtype,
                    "device": device,
                }
                case = f"{dtype}, G = {group_size}"
                ours = Variant(f"ours, {case}", FILE, "ours", arguments)
                theirs = Variant(f"transformers, {case}", FILE, "transformers_generate", arguments)
                floor = Variant(f"floor, {case}", "product_floors.py", "sampling", arguments)
                found = compare([ours, theirs, floor], rounds, variables)
                sections.append([*found.values()])
                mine = found[ours.name]
                beside = Goal(f"speed against the floor, {case}", "x")
                for aim, other in ((goal(group_size, dtype), theirs), (beside, floor)):
                    rival = found[other.name]
                    judgements.append(Judgement(aim, mine.times_faster(rival), mine.beside(rival)))
    settings = {"model": model, "new tokens": new_tokens, "rounds": rounds, "device": device}
    return Report("G completions of one prompt", settings, variables, sections, judgements)


def main(
    model: Model = OFFLINE_MODEL,
    group_size: Annotated[
        list[int], typer.Option(min=1, help="Completions (G); give it again for more.")
    ] = [4, 16],  # noqa: B006
    dtype: Annotated[list[str], typer.Option(help="float32 or bfloat16; give it again.")] = [  # noqa: B006
        "bfloat16",
        "float32",
    ],
    new_tokens: NewTokens = 128,
    rounds: Rounds = 3,
    device: Device = "cpu",
    tuned: Tuned = True,
    threads: Threads = None,
    json_file: JsonFile = None,
) -> None:
    """Measure sampling, and judge it by its goal."""
    minutes = rounds * 3 * len(group_size) * len(dtype) * SECONDS / 60
    tell(f"takes about {minutes:.0f} minutes with the offline model on two cores")
    show(
        partial(
            measure,
            model,
            group_size,
            dtype,
            new_tokens,
            rounds,
            device=device,
            tuned=tuned,
            threads=threads,
        ),
        json_file,
    )


if __name__ == "__main__":
    typer.run(main)
