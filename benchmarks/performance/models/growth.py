"""What an update costs as it grows: `python -m llm_decpomdp.benchmarks.performance.models.growth`.

Time and peak memory of our own updates against group size, agents, turns and completion length, for one model
that all share; and against agents with an adapter, or a model, for each. One quantity changes at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

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
from llm_decpomdp.benchmarks.performance.harness.comparison import Spread
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
from llm_decpomdp.validation import unknown

BASE = {
    "agents": 2,
    "turns": 1,
    "group_size": 4,
    "new_tokens": 16,
    "prompt_words": 100,
    "weights": "shared",
}

CURVES: Mapping[str, tuple[Mapping[str, Any], str, Sequence[int]]] = {
    "group size": ({}, "group_size", (2, 4, 8, 16)),
    "turns": ({}, "turns", (1, 2, 4)),
    "new tokens": ({}, "new_tokens", (16, 32, 64)),
    "agents, shared model": ({}, "agents", (1, 2, 4)),
    "agents, adapters": ({"weights": "adapters"}, "agents", (1, 2, 4)),
    "agents, own models": ({"weights": "own"}, "agents", (1, 2, 3)),
}
"""What else differs from the base, what grows, and its values."""

SECONDS = 25
"""About what a trial takes."""


def measure(
    model: str,
    curves: Sequence[str],
    rounds: int,
    dtype: str,
    *,
    points: int | None = None,
    device: str = "cpu",
    tuned: bool = True,
    threads: int | None = None,
) -> Report:
    """Run everything.

    Args:
        curves: Names of those to run.
        points: Values of each curve, from its first on; all if `None`.

    Raises:
        BenchmarkError: If a trial fails.
    """
    variables = environment(tuned, threads)
    sections, judgements = [], []
    with workload.endless_copy(model) as folder:
        common = {**BASE, "model": folder, "dtype": dtype, "device": device}
        for name in curves:
            changed, growing, values = CURVES[name]
            variants = [
                Variant(
                    *(f"{name}: {value}", "growth_variants.py", "update"),
                    {**common, **changed, growing: value},
                )
                for value in values[:points]
            ]
            found = [*compare(variants, rounds, variables).values()]
            sections.append(found)
            judgements += grown(found)
    settings = {**BASE, "model": model, "dtype": dtype, "rounds": rounds, "device": device}
    title = "What an update costs as one quantity grows"
    return Report(title, settings, variables, sections, judgements)


def grown(found: Sequence[Measured]) -> list[Judgement]:
    """Time, tokens and memory of a curve's last point in terms of its first."""
    first, last = found[0], found[-1]
    name = f"{last.variant.name} against {first.variant.name.rpartition(' ')[2]}"
    tokens = last.trials[0].tokens / first.trials[0].tokens
    pairs = [*zip(last.trials, first.trials, strict=True)]
    note = f"with {tokens:.3g} times the tokens"
    return [
        Judgement(
            Goal(f"time, {name}", "x"), Spread.of([b.total / a.total for b, a in pairs]), note
        ),
        Judgement(Goal(f"peak memory, {name}", "x"), last.times_memory(first), note),
    ]


def main(
    model: Model = OFFLINE_MODEL,
    curve: Annotated[
        list[str] | None, typer.Option(help="A curve; give it again. All by default.")
    ] = None,
    rounds: Rounds = 1,
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "bfloat16",
    points: Annotated[int | None, typer.Option(min=1, help="Points of each curve.")] = None,
    device: Device = "cpu",
    tuned: Tuned = True,
    threads: Threads = None,
    json_file: JsonFile = None,
) -> None:
    """Measure what our updates cost as they grow."""
    names = curve or [*CURVES]
    for name in names:
        if name not in CURVES:
            raise typer.BadParameter(unknown("curve", name, CURVES))
    trials = rounds * sum(len(CURVES[name][2][:points]) for name in names)
    tell(f"takes about {trials * SECONDS / 60:.0f} minutes with the offline model on two cores")
    show(
        partial(
            measure,
            *(model, names, rounds, dtype),
            points=points,
            device=device,
            tuned=tuned,
            threads=threads,
        ),
        json_file,
    )


if __name__ == "__main__":
    typer.run(main)
