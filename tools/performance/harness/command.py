"""Options that the commands share, and the way in which each of them runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from tools.performance.harness.trials import BenchmarkError

Model = Annotated[str, typer.Option(help="The offline model, or a folder.")]
NewTokens = Annotated[int, typer.Option(min=1, help="Tokens of a completion.")]
Rounds = Annotated[int, typer.Option(min=1, help="Number of times that everything is measured.")]
Dtypes = Annotated[list[str], typer.Option(help="float32 or bfloat16; give it again.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Tuned = Annotated[bool, typer.Option(help="Whether with our memory and thread settings.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of torch.")]
Peers = Annotated[
    Path | None,
    typer.Option(help="Interpreter that has other libraries; without it ours run alone."),
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write everything there, too.")
]


def run(main: Callable[..., None]) -> None:
    """Run a command; a trial that fails, or a package that is missing, ends it with one line."""
    try:
        typer.run(main)
    except (BenchmarkError, ImportError) as error:
        raise SystemExit(f"error: {error}") from None
