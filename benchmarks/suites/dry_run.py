"""The plan and cost of a suite, without running it: `llm-decpomdp bench SUITE --dry-run`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from llm_decpomdp.benchmarks.suites.cost import JobCost, costs_of
from llm_decpomdp.benchmarks.suites.job import Job
from llm_decpomdp.benchmarks.suites.suite import Suite

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


def show_costs(suite: Suite, jobs: Sequence[Job], tokens_per_second: float | None = None) -> bool:
    """Print the cost of every cell over all its seeds, and its data.

    Args:
        suite: The suite.
        jobs: Its jobs, or some of them.
        tokens_per_second: Sampling speed of the machine, for hours.

    Returns:
        True if the cost of every cell is known.
    """
    costs, reasons = costs_of(jobs)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH)
    table = Table(title=f"{suite.name}: {suite.description}", title_justify="left")
    columns = (*COLUMNS, "hours") if tokens_per_second else COLUMNS
    for column in columns:
        table.add_column(column, justify="left" if column in ("cell", "model") else "right")
    sample = {job.cell.name: job for job in jobs}
    numbers = []
    for name, job in sample.items():
        seeds = len(job.cell.seeds)
        head = name, str(seeds), _model(job)
        if name not in costs:
            table.add_row(*head, *["?"] * (len(columns) - len(head)))
            continue
        numbers.append([seeds * count for count in _counts(costs[name], tokens_per_second)])
        *counts, hours = map(_shown, numbers[-1])
        table.add_row(*head, *counts, _gigabytes(costs[name]), *[hours] * bool(tokens_per_second))
    table.add_section()
    *sums, hours = (
        (_shown(sum(column)) for column in zip(*numbers, strict=True)) if numbers else ["0"]
    )
    table.add_row("in all", str(len(jobs)), "", *sums, "", *[hours] * bool(tokens_per_second))
    console.print(table)
    console.print(
        "Tokens are upper bounds: every completion as long as its limit, every episode to its horizon. Memory is "
        "that of weights, gradients and AdamW in float32; activations come on top."
    )
    problems = (f"PROBLEM: {name}: {reason}" for name, reason in reasons.items())
    for line in (*_data(sample.values(), costs), *problems):
        console.print(line, markup=False, soft_wrap=True)
    console.print("Models were not loaded, and nothing was written.")
    return not reasons


def _counts(cost: JobCost, tokens_per_second: float | None) -> list[float]:
    """Return the numbers of a job in the order of `COLUMNS`, then its hours."""
    return [
        *(cost.updates, cost.joint_samples, cost.training_tokens),
        *(cost.episodes, cost.evaluation_tokens),
        cost.tokens / (3600 * tokens_per_second) if tokens_per_second else 0.0,
    ]


def _gigabytes(cost: JobCost) -> str:
    if cost.gigabytes is None:
        return "?"
    return f"{cost.gigabytes:.1f}" if cost.gigabytes else ""


def _shown(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.1f}"


def _model(job: Job) -> str:
    return "" if job.cell.method in ("gold", "random") else job.config.model.name


def _data(jobs: Iterable[Job], costs: Mapping[str, JobCost]) -> Iterator[str]:
    """Yield a line for each data set, with the cells that play it."""
    cells: dict[str, list[str]] = {}
    for job in jobs:
        if job.cell.name in costs:
            cells.setdefault(costs[job.cell.name].data, []).append(job.cell.name)
    for text, names in cells.items():
        yield f"data of {', '.join(names)}: {text}"
