"""The command `credit`."""

from __future__ import annotations

from typing import Annotated

import typer

from llm_decpomdp.benchmarks.cli.options import Folder


def credit(
    folder: Folder,
    phase: Annotated[
        str | None,
        typer.Option(help="eval or train; by default eval, or train where nothing was evaluated."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Decides which orders are drawn for over six agents.")
    ] = 0,
) -> None:
    """Find out which agent earned the team's rewards: what would have been earned without it."""
    from rich.console import Console

    from llm_decpomdp.benchmarks.analysis.credit_folder import credit_folder
    from llm_decpomdp.benchmarks.analysis.credit_summary import table

    result = credit_folder(folder, phase, seed)
    console = Console(highlight=False)
    for warning in result.warnings:
        console.print(warning, style="yellow", soft_wrap=True)
    points = result.points
    for point in points if len(points) < 3 else (points[0], points[-1]):
        console.print(table(point))
    console.print(f"credit: {', '.join(map(str, result.files))}", soft_wrap=True)
