"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Overrides = Annotated[
    list[str] | None,
    typer.Option("--override", metavar="KEY=VALUE ...", help="Set keys of the configuration."),
]
Checkpoint = Annotated[str | None, typer.Option(help="Which team of a run: final, best or last.")]
Env = Annotated[str | None, typer.Option(help="An environment instead of the configuration's.")]
EnvOptions = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="An argument of the environment.")
]
Split = Annotated[
    str | None,
    typer.Option(
        help="Which problems, such as test[:16]; by default the held-out, of --env its usual."
    ),
]
Tasks = Annotated[int | None, typer.Option(min=1, help="How many of them, from the first on.")]
Samples = Annotated[int, typer.Option(min=1, help="Episodes of each problem.")]
Greedy = Annotated[bool, typer.Option("--greedy", help="Take the likeliest token.")]
Seed = Annotated[int, typer.Option(min=0, help="Decides what is sampled.")]
AtATime = Annotated[int, typer.Option(min=1, help="Episodes that are played together.")]
Output = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where the results go.")]
AllowEndpoint = Annotated[
    list[str] | None,
    typer.Option(
        metavar="VARIABLE@URL",
        help="Server that a saved team may ask, and the environment variable with its key.",
    ),
]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A run or an evaluation.")]
