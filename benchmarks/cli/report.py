"""The command `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of runs, evaluations.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The page; by default report.html, of one run in its folder."
        ),
    ] = None,
    files: Annotated[
        bool,
        typer.Option("--files", help="Tables as CSV and figures as SVG and PNG, too."),
    ] = False,
) -> None:
    """Write one HTML page of runs: what they learned, what it cost, and every transcript.

    Runs whose configurations differ by the seed alone are shown as one.
    """
    from llm_decpomdp.benchmarks.report.document import report as write

    print(write(runs, output, files))
