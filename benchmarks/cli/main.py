"""The command line: `llm-decpomdp`, `python -m llm_decpomdp` or `python -m llm_decpomdp.benchmarks`.

Each command is a module of this folder. Modules of commands import what parses their options; the rest is
imported by the command that is run, so that help and completion are fast.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from llm_decpomdp import __version__
from llm_decpomdp.benchmarks.cli import (
    audit,
    bench,
    credit,
    crossplay,
    doctor,
    evaluate,
    export,
    necessity,
    play,
    report,
    rescore,
    train,
)
from llm_decpomdp.benchmarks.cli import list as listing
from llm_decpomdp.benchmarks.cli.console import PROGRAM, exit_codes, prepare_process
from llm_decpomdp.benchmarks.cli.options import without_types

COMMANDS = (
    *(train, play, listing, doctor, evaluate, bench, crossplay),
    *(report, export, rescore, credit, necessity, audit),
)
"""Modules of commands, in the order of the help."""

WITH_MODELS = ("train", "demo", "eval", "play", "crossplay")
"""Commands in whose process models compute."""


class CommandLine(TyperGroup):
    """All commands, each run with log lines and with exit codes for expected failures."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options, without types that help would show."""
        return without_types(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        prepare_process()
        with exit_codes():
            return super().invoke(ctx)


app = typer.Typer(cls=CommandLine, no_args_is_help=True, pretty_exceptions_enable=False)
for command in COMMANDS:
    app.add_typer(command.app)


def _version(requested: bool) -> None:
    if requested:
        print(f"{PROGRAM} {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_version, help="Show the version."),
    ] = False,
) -> None:
    """Cooperative language-model agents as Dec-POMDPs: play, train, evaluate and report."""


def spread(arguments: Sequence[str]) -> list[str]:
    """Repeat `--override` before each of several values, as the parser wants it.

    Examples:
        >>> spread(["train", "--override", "a=1", "b=2", "--config", "demo"])
        ['train', '--override', 'a=1', '--override', 'b=2', '--config', 'demo']
    """
    result: list[str] = []
    values = -1  # since the last --override; -1 elsewhere
    for argument in arguments:
        if argument.startswith("-"):
            values = 0 if argument == "--override" else -1
        elif values >= 0:
            values += 1
            if values > 1:
                result.append("--override")
        result.append(argument)
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command.

    Args:
        arguments: The command line; by default that of the process, which may be started anew.
    """
    if arguments is None and sys.argv[1:] and sys.argv[1] in WITH_MODELS:
        from llm_decpomdp.benchmarks.runs.environment import restart_with_settings

        restart_with_settings()
    app(spread(sys.argv[1:] if arguments is None else arguments), prog_name=PROGRAM)
