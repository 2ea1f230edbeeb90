"""Options that several commands share, and the class of all commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

START = "Start"
MEASURE = "Train and measure"
AFTER = "After a run"
DATA = "Data"
"""Panels of the help."""

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
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A run or an evaluation.")]


class Command(TyperCommand):
    """A command whose help shows metavars, and types only for options that take a value and have none."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and options, without types that help would show."""
        return without_types(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line, required arguments without braces."""
        return [
            piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)
        ]


def without_types(parameters: list[Any]) -> list[Any]:
    """Hide the types of flags, which take no value, and of arguments, which their metavars describe."""
    for parameter in parameters:
        if isinstance(parameter, TyperOption) and parameter.is_flag:
            parameter.metavar = ""
        elif isinstance(parameter, TyperArgument):
            parameter.display_type_rich = lambda ctx: None  # type: ignore[method-assign]
    return parameters
