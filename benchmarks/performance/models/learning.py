"""Learning beside padded batches: `python -m llm_decpomdp.benchmarks.performance.models.learning`.

Forward and backward of groups of siblings, whose lengths differ: `CausalLM.log_probs` against a padded batch of
the same rows with logits of completions only, and a forward pass for each row. Equal gradient norms show that
all do the same work. The floor is the matrix products alone, with each prompt computed once.
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
    Rounds,
    Threads,
    Tuned,
    show,
)
from llm_decpomdp.benchmarks.performance.harness.goals import Goal, Judgement
from llm_decpomdp.benchmarks.performance.harness.trial_tables import Report
from llm_decpomdp.benchmarks.performance.harness.trials import (
    Measured,
    Variant,
    compare,
    environment,
    tell,
)
from llm_decpomdp.benchmarks.performance.models import workload

FILE = "learning_variants.py"

SECONDS = 30
"""About what a trial takes with the defaults."""

SPEED = Goal("speed against one padded batch, float32", "x", at_least=2.5)
MEMORY = Goal("peak memory against one padded batch, float32", "x", at_most=0.5)


def measure(
    model: str,
    group_size: int,
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
    env = workload.environment()
    prompts = [*workload.prompts(env, workload.task_ids(env, 1)[0]).values()]
    sections: list[list[Measured]] = []
    judgements: list[Judgement] = []
    with workload.endless_copy(model) as folder:
        for dtype in dtypes:
            arguments = {
                "model": folder,
                "prompts": prompts,
                "group_size": group_size,
                "new_tokens": new_tokens,
                "dtype": dtype,
                "device": device,
            }
            found = [*compare(variants(arguments, dtype), rounds, variables).values()]
            sections.append(found)
            judgements += judge(found, dtype)
    settings = {
        "model": model,
        "prompts": len(prompts),
        "G": group_size,
        "longest completion": new_tokens,
        "rounds": rounds,
        "device": device,
    }
    title = "Forward and backward of groups of siblings"
    return Report(title, settings, variables, sections, judgements)


def variants(arguments: dict[str, object], dtype: str) -> list[Variant]:
    """Ours first, then what it is compared with, then the others."""
    return [
        Variant(f"ours, {dtype}", FILE, "ours", arguments),
        Variant(f"one padded batch, {dtype}", FILE, "padded", {**arguments, "together": True}),
        Variant(
            f"a padded batch a group, {dtype}", FILE, "padded", {**arguments, "together": False}
        ),
        Variant(f"row by row, all logits, {dtype}", FILE, "one_by_one", arguments),
        Variant(f"floor, {dtype}", "product_floors.py", "learning", arguments),
    ]


def judge(found: Sequence[Measured], dtype: str) -> list[Judgement]:
    """Ours against each other variant; the bounds are for float32 against one padded batch."""
    ours, batch, *others, floor = found
    if dtype == "float32":
        speed, memory = SPEED, MEMORY
    else:
        speed = Goal(f"speed against one padded batch, {dtype}", "x")
        memory = Goal(f"peak memory against one padded batch, {dtype}", "x")
    judgements = [
        Judgement(speed, ours.times_faster(batch), ours.beside(batch)),
        Judgement(memory, ours.times_memory(batch)),
    ]
    for other in others:
        judgements += [
            Judgement(
                Goal(f"speed against {other.variant.name}", "x"),
                ours.times_faster(other),
                ours.beside(other),
            ),
            Judgement(Goal(f"memory against {other.variant.name}", "x"), ours.times_memory(other)),
        ]
    beside = Goal(f"speed against the floor, {dtype}", "x")
    return [*judgements, Judgement(beside, ours.times_faster(floor), ours.beside(floor))]


def main(
    model: Model = OFFLINE_MODEL,
    group_size: Annotated[int, typer.Option(min=2, help="Siblings of a group (G).")] = 4,
    dtype: Annotated[list[str], typer.Option(help="float32 or bfloat16; give it again.")] = [  # noqa: B006
        "float32",
        "bfloat16",
    ],
    new_tokens: Annotated[int, typer.Option(min=4, help="Tokens of the longest completion.")] = 128,
    rounds: Rounds = 3,
    device: Device = "cpu",
    tuned: Tuned = True,
    threads: Threads = None,
    json_file: JsonFile = None,
) -> None:
    """Measure learning, and judge it by its goals."""
    minutes = rounds * 5 * len(dtype) * SECONDS / 60
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
