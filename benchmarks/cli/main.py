"""The command line: `llm-decpomdp`, `python -m llm_decpomdp` or `python -m llm_decpomdp.benchmarks`.

Modules of commands import what parses their options; the rest is
imported by the command that is run, so that help and completion are fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer import Option

from llm_decpomdp import __version__
from llm_decpomdp.benchmarks.cli.command_line import (
    Command,
    CommandGroup,
    CommandLine,
    spread,
    with_output_options,
)
from llm_decpomdp.benchmarks.cli.commands import (
    COMMANDS,
    GROUPS,
    OLD_NAMES,
    WITH_MODELS,
    WITH_RESULTS,
)
from llm_decpomdp.benchmarks.cli.console import PROGRAM, exit_codes

# Typer's own tracebacks may print local values, such as keys of servers.
app = typer.Typer(cls=CommandLine, no_args_is_help=True, pretty_exceptions_enable=False)


def command_name(function: Callable[..., None]) -> str:
    """Return the name of a command by that of its function, as in `eval` for `eval_`."""
    return function.__name__.rstrip("_").replace("_", "-")


def add_command(group: typer.Typer, name: str, function: Callable[..., None], **about: Any) -> None:
    """Add a command with the options of all commands."""
    group.command(name, cls=Command, **about)(
        with_output_options(function, has_result=function in WITH_RESULTS)
    )


for panel, functions in COMMANDS.items():
    for function, epilog in functions.items():
        add_command(app, command_name(function), function, rich_help_panel=panel, epilog=epilog)
for group, (text, functions) in GROUPS.items():
    below = typer.Typer(cls=CommandGroup, no_args_is_help=True, help=text)
    for function, epilog in functions.items():
        add_command(below, command_name(function), function, epilog=epilog)
    app.add_typer(below, name=group, rich_help_panel="During and after a run")
for name, function in OLD_NAMES.items():
    add_command(app, name, function, hidden=True)


def _version(requested: bool) -> None:
    if requested:
        print(f"{PROGRAM} {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool, Option("--version", is_eager=True, callback=_version, help="Show the version.")
    ] = False,
) -> None:
    """Cooperative language-model agents as Dec-POMDPs: play, train, evaluate and report."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command."""
    named = {" ".join(sys.argv[1:2]), " ".join(sys.argv[1:3])}
    if arguments is None and WITH_MODELS & named and "--help" not in sys.argv:
        # The settings of memory allocators are read once, when a process starts.
        from llm_decpomdp.benchmarks.runs import restart_with_settings

        with exit_codes():
            restart_with_settings()
    app(spread(sys.argv[1:] if arguments is None else arguments), prog_name=PROGRAM)
