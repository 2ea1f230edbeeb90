"""What a suite would do and cost, without doing it: `llm-decpomdp bench SUITE --dry-run`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from llm_decpomdp.benchmarks.suites.cost import JobCost
from llm_decpomdp.benchmarks.suites.job import Job
from llm_decpomdp.benchmarks.suites.suite import Cell, Suite

FILE_WIDTH = 140
"""Columns of a table that goes to no terminal."""

COLUMNS = (
    "cell",
    "seeds",
    "model",
    "updates",
    "joint samples",
    "tokens of training",
    "episodes",
    "tokens of evaluation",
    "GB of weights",
)


def show_costs(
    suite: Suite,
    jobs: Sequence[Job],
    costs: Mapping[str, JobCost],
    reasons: Mapping[str, str],
    tokens_per_second: float | None = None,
) -> bool:
    """Print what every cell would cost over all its seeds, and its data; whether all cells are sound.

    Args:
        suite: The suite.
        jobs: Its jobs.
        costs: Of one job of each cell, by name.
        reasons: Why the cost of a cell is not known, by name.
        tokens_per_second: How fast the machine samples; gives hours.
    """
    console = Console(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH)
    table = Table(title=f"{suite.name}: {suite.description}", title_justify="left")
    columns = (*COLUMNS, "hours") if tokens_per_second else COLUMNS
    for column in columns:
        table.add_column(column, justify="left" if column in ("cell", "model") else "right")
    chosen = {job.cell.name: job for job in jobs}
    known = []
    for name, job in chosen.items():
        seeds = len(job.cell.seeds)
        head = name, str(seeds), _model(job)
        if name not in costs:
            table.add_row(*head, *["?"] * (len(columns) - len(head)))
            continue
        cost = costs[name]
        known.append([*_counts(cost, seeds), _hours(cost, seeds, tokens_per_second)])
        *counts, hours = map(_shown, known[-1])
        table.add_row(*head, *counts, _gigabytes(cost), *[hours] * bool(tokens_per_second))
    table.add_section()
    *sums, hours = (_shown(sum(column)) for column in zip(*known, strict=True)) if known else ["0"]
    table.add_row("in all", str(len(jobs)), "", *sums, "", *[hours] * bool(tokens_per_second))
    console.print(table)
    console.print(
        "Tokens are upper bounds: every completion as long as its limit, every episode to its horizon. Memory is "
        "that of weights, gradients and AdamW in float32; activations come on top."
    )
    for line in (*_data(chosen.values(), costs), *_problems(reasons)):
        console.print(line, markup=False, soft_wrap=True)
    console.print("Models were not loaded, and nothing was written.")
    return not reasons


def _counts(cost: JobCost, seeds: int) -> list[float]:
    one = (
        *(cost.updates, cost.joint_samples, cost.training_tokens),
        *(cost.episodes, cost.evaluation_tokens),
    )
    return [seeds * number for number in one]


def _hours(cost: JobCost, seeds: int, tokens_per_second: float | None) -> float:
    return seeds * cost.tokens / (3600 * tokens_per_second) if tokens_per_second else 0.0


def _gigabytes(cost: JobCost) -> str:
    if cost.gigabytes is None:
        return "?"
    return f"{cost.gigabytes:.1f}" if cost.gigabytes else ""


def _shown(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.1f}"


def _model(job: Job) -> str:
    return "" if job.cell.method in ("gold", "random") else job.config.model.name


def _data(jobs: Iterable[Job], costs: Mapping[str, JobCost]) -> Iterator[str]:
    """The problems of the cells, each set once."""
    cells: dict[str, list[Cell]] = {}
    for job in jobs:
        if job.cell.name in costs:
            cells.setdefault(costs[job.cell.name].data, []).append(job.cell)
    for text, found in cells.items():
        yield f"data of {', '.join(cell.name for cell in found)}: {text}"


def _problems(reasons: Mapping[str, str]) -> Iterator[str]:
    for name, reason in reasons.items():
        yield f"PROBLEM: {name}: {reason}"
