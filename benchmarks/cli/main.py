"""The command line: `llm-decpomdp`, `python -m llm_decpomdp` or `python -m llm_decpomdp.benchmarks`.

Each command is a module of this folder. Modules of commands import what parses their options; the rest is
imported by the command that is run, so that help and completion are fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

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
    partners,
    plan,
    play,
    report,
    rescore,
    reward_model,
    serve,
    train,
)
from llm_decpomdp.benchmarks.cli import list as listing
from llm_decpomdp.benchmarks.cli.console import PROGRAM, exit_codes, prepare_process

COMMANDS: Mapping[str, Mapping[Callable[..., None], str | None]] = {
    "Start": {
        train.demo: "Example: llm-decpomdp demo",
        play.play: "Example: llm-decpomdp play bugfix-v0 --policy gold",
        listing.list_: None,
        doctor.doctor: None,
    },
    "Train and measure": {
        train.train_: "Example: llm-decpomdp train --config demo --override algorithm.name=marloo env.num_turns=2",
        evaluate.eval_: evaluate.EXAMPLES,
        plan.plan: "Example: llm-decpomdp plan magrpo_che_config --gpus 8xh100",
        bench.bench: "Example: llm-decpomdp bench laptop --dry-run",
        crossplay.crossplay: "Example: llm-decpomdp crossplay runs/a runs/b",
        partners.partners: "Example: llm-decpomdp partners runs/a runs/b",
        serve.serve: "Example: llm-decpomdp serve coophumaneval-v0 --seat main_0 --partner aux_0=gold",
    },
    "After a run": {
        report.report: "Example: llm-decpomdp report runs/a runs/b --output both.html",
        export.export: "Example: llm-decpomdp export runs/a --pairs --to jsonl",
        reward_model.reward_model: "Example: llm-decpomdp reward-model --pairs runs/a/pairs-jsonl/train.jsonl "
        "--config demo --output runs/judge",
        rescore.rescore: "Example: llm-decpomdp rescore runs/a",
        credit.credit: "Example: llm-decpomdp credit runs/a",
        necessity.necessity: "Example: llm-decpomdp necessity runs/eval-team runs/eval-single",
    },
    "Data": {audit.audit: "Example: llm-decpomdp audit classeval-v0 --output audit.json"},
}
"""The panels of the help, the commands in each, and the last lines of their own help."""

WITH_MODELS = (
    "train",
    "demo",
    "eval",
    "play",
    "crossplay",
    "partners",
    "reward-model",
    "serve",
)
"""Commands in whose process models compute."""


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


def without_types(parameters: list[Any]) -> list[Any]:
    """Hide the types of flags, which take no value, and of arguments, which their metavars describe."""
    for parameter in parameters:
        if isinstance(parameter, TyperOption) and parameter.is_flag:
            parameter.metavar = ""
        elif isinstance(parameter, TyperArgument):
            parameter.display_type_rich = lambda ctx: None  # type: ignore[method-assign]
    return parameters


app = typer.Typer(cls=CommandLine, no_args_is_help=True, pretty_exceptions_enable=False)
for panel, functions in COMMANDS.items():
    for function, epilog in functions.items():
        name = function.__name__.rstrip("_").replace("_", "-")
        app.command(name, cls=Command, rich_help_panel=panel, epilog=epilog)(function)


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

        with exit_codes():
            restart_with_settings()
    app(spread(sys.argv[1:] if arguments is None else arguments), prog_name=PROGRAM)
