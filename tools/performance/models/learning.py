"""Learning beside padded batches: `python -m tools.performance.models.learning`.

Forward and backward of groups of siblings, whose lengths differ: `CausalLM.log_probs` against a padded batch of
the same rows with logits of completions only, and a forward pass for each row. Equal gradient norms show that
all do the same work. The floor is the matrix products alone, with each prompt computed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from llm_decpomdp.agents.models.local_models import OFFLINE_MODEL
from tools.performance.harness.command import (
    Device,
    Dtypes,
    JsonFile,
    Model,
    Rounds,
    Threads,
    Tuned,
    run,
)
from tools.performance.harness.report import Goal, Judgement, Report, speed
from tools.performance.harness.trials import (
    Measured,
    Variant,
    compare,
    environment,
    progress,
)
from tools.performance.models import workload

FILE = "models/learning_variants.py"

SECONDS = 30
"""Rough duration of a trial with the defaults."""

SPEED = Goal("speed against one padded batch, float32", at_least=2.5)
MEMORY = Goal("peak memory against one padded batch, float32", at_most=0.5)


def variants(case: Mapping[str, Any], dtype: str) -> list[Variant]:
    """Return ours, then the batch that it is judged by, then the others, with the floor at the end."""
    case = {**case, "dtype": dtype}
    together, apart = ({**case, "together": together} for together in (True, False))
    return [
        Variant(f"ours, {dtype}", FILE, "ours", case),
        Variant(f"one padded batch, {dtype}", FILE, "padded", together),
        Variant(f"a padded batch a group, {dtype}", FILE, "padded", apart),
        Variant(f"row by row, all logits, {dtype}", FILE, "one_by_one", case),
        Variant(f"floor, {dtype}", "models/product_floors.py", "learning", case),
    ]


def judge(measured: Sequence[Measured], dtype: str) -> list[Judgement]:
    """Judge ours against each other variant; the bounds are for float32 against one padded batch."""
    learner, *rivals, floor = measured
    judgements = []
    for rival in rivals:
        name = rival.variant.name
        faster, smaller = Goal(f"speed against {name}"), Goal(f"peak memory against {name}")
        if rival is rivals[0] and dtype == "float32":
            faster, smaller = SPEED, MEMORY
        judgements.append(speed(faster, learner, rival))
        judgements.append(Judgement(smaller, learner.times_memory(rival)))
    return [*judgements, speed(Goal(f"speed against the floor, {dtype}"), learner, floor)]


def main(
    model: Model = OFFLINE_MODEL,
    group_size: Annotated[int, typer.Option(min=2, help="Siblings of a group (G).")] = 4,
    dtype: Dtypes = ["float32", "bfloat16"],  # noqa: B006
    new_tokens: Annotated[int, typer.Option(min=4, help="Tokens of the longest completion.")] = 128,
    rounds: Rounds = 3,
    device: Device = "cpu",
    tuned: Tuned = True,
    threads: Threads = None,
    json_file: JsonFile = None,
) -> None:
    """Measure learning, and judge it by its goals."""
    minutes = rounds * 5 * len(dtype) * SECONDS / 60
    progress(f"takes about {minutes:.0f} minutes with the offline model on two cores")
    variables = environment(tuned, threads)
    env = workload.environment()
    prompts = [*workload.prompts(env, workload.task_ids(env, 1)[0]).values()]
    size = {"group_size": group_size, "new_tokens": new_tokens}
    sections, judgements = [], []
    with workload.endless_copy(model) as folder:
        case = {"model": folder, "prompts": prompts, "device": device, **size}
        for precision in dtype:
            section = [*compare(variants(case, precision), rounds, variables).values()]
            sections.append(section)
            judgements += judge(section, precision)
    settings = {
        "model": model,
        "prompts": len(prompts),
        "G": group_size,
        "longest completion": new_tokens,
        "rounds": rounds,
        "device": device,
    }
    title = "Forward and backward of groups of siblings"
    Report(title, settings, variables, sections, judgements).finish(json_file)


if __name__ == "__main__":
    run(main)
