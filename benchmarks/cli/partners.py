"""The command `partners`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llm_decpomdp.benchmarks.cli import options


def partners(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="A training run; after it one of another seed, or a saved team, that lends its partners. Of "
            "three runs or more each is lent those of the next.",
        ),
    ],
    tasks: Annotated[
        int | None, typer.Option(min=1, help="Number of held-out problems, from the first on.")
    ] = None,
    samples: options.Samples = 1,
    seed: options.Seed = 0,
    at_a_time: options.AtATime = 16,  # few, for the small machines that the demo runs on
) -> None:
    """Exchange the partners of a trained team's last agent: is the gain lost? Then write the report anew.

    It plays the team before and after training, and with partners that were not trained, or come from another run.
    """
    from rich.console import Console

    from llm_decpomdp.benchmarks.analysis.partners import FOLDER, exchange_in_turn, table
    from llm_decpomdp.benchmarks.report import write_report
    from llm_decpomdp.benchmarks.runs.failures import as_run_errors
    from llm_decpomdp.utils.storage import RunFolder

    with as_run_errors():
        evaluations = exchange_in_turn(
            runs, tasks=tasks, samples=samples, seed=seed, at_a_time=at_a_time
        )
    console = Console(highlight=False)
    console.print(table(evaluations))
    for run in runs[: len(evaluations["after"])]:
        console.print(f"partners: {run / FOLDER}", soft_wrap=True)
        console.print(f"report: {write_report(RunFolder(run))}", soft_wrap=True)
