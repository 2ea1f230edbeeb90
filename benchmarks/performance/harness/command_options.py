"""Options that the commands of models share, and how they end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from llm_decpomdp.benchmarks.performance.harness.comparison import BenchmarkError
from llm_decpomdp.benchmarks.performance.harness.trial_tables import Report

Model = Annotated[str, typer.Option(help="The offline model, or a folder.")]
NewTokens = Annotated[int, typer.Option(min=1, help="Tokens of a completion.")]
Rounds = Annotated[int, typer.Option(min=1, help="How often everything is measured.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Tuned = Annotated[bool, typer.Option(help="Whether with our memory and thread settings.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of torch.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write everything there, too.")
]


def show(measure: Callable[[], Report], json_file: Path | None) -> None:
    """Measure, print the tables, and write them where that is wanted; a trial that fails ends the command."""
    try:
        report = measure()
    except BenchmarkError as error:
        raise SystemExit(f"error: {error}") from None
    report.show()
    if json_file is not None:
        report.write(json_file)
