"""The command line: `llm-decpomdp`, `python -m llm_decpomdp` or `python -m llm_decpomdp.benchmarks`.

Modules of commands import what parses their options; the rest is
imported by the command that is run, so that help and completion are fast.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from llm_decpomdp import __version__
from llm_decpomdp.benchmarks.cli import (
    bench,
    check,
    demo,
    evaluate,
    play,
    publish,
    results,
    serve,
    train,
)
from llm_decpomdp.benchmarks.cli.console import PROGRAM, exit_codes, json_on_stdout, prepare_process
from llm_decpomdp.envs.source_code.function_extraction import KINDS

JSON = Annotated[
    bool, Option("--json", help="The result as JSON on stdout; text for people goes to stderr.")
]


QUIET = Annotated[
    bool, Option("--quiet", help="No progress, and no log lines but warnings and errors.")
]


class WithoutTypes:
    """A command whose help shows metavars, and types only for options that take a value and have none."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters; flags take no value, and the metavars of arguments describe them."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if isinstance(parameter, TyperOption) and parameter.is_flag:
                parameter.metavar = ""
            elif isinstance(parameter, TyperArgument):
                parameter.display_type_rich = lambda ctx: None  # type: ignore[method-assign]
        return parameters


class Command(WithoutTypes, TyperCommand):
    """A command of one or two words."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line, required arguments without braces."""
        return [
            piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)
        ]


class CommandGroup(WithoutTypes, TyperGroup):
    """The commands that share a first word."""


class CommandLine(CommandGroup):
    """All commands, each run with log lines and with exit codes for expected failures."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        # Not at import: tests and notebooks import the commands and have their own logging.
        prepare_process()
        with exit_codes():
            return super().invoke(ctx)


class _NoTerminal:
    """A stream that is no terminal, so that nothing draws progress on it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def isatty(self) -> bool:
        """Return False."""
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def with_output_options(function: Callable[..., None], *, has_result: bool) -> Callable[..., None]:
    """Return the function of a command with the parameters `quiet` and, if it has a result, `json`."""

    @functools.wraps(function)
    def run(*arguments: Any, quiet: bool, as_json: bool = False, **options: Any) -> None:
        if quiet:
            logging.getLogger("llm_decpomdp").setLevel(logging.WARNING)
            if sys.stderr.isatty():
                sys.stderr = _NoTerminal(sys.stderr)
            os.environ["TQDM_DISABLE"] = "1"  # of libraries, which draw without a terminal too
        with json_on_stdout(quiet) if as_json else nullcontext():
            function(*arguments, **options)

    flags = {"as_json": JSON, "quiet": QUIET} if has_result else {"quiet": QUIET}
    # With postponed annotations they are texts, and typer needs the objects of `Annotated`.
    signature = inspect.signature(function, eval_str=True)
    parameters = [
        *signature.parameters.values(),
        *(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=of)
            for name, of in flags.items()
        ),
    ]
    # Typer reads the parameters of a command from both.
    run.__dict__["__signature__"] = signature.replace(parameters=parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def spread(arguments: Sequence[str]) -> list[str]:
    """Repeat `--override` or `--kinds` before each of several values, as the parser wants it.

    Examples:
        >>> spread(["train", "--override", "a=1", "b=2", "--config", "demo"])
        ['train', '--override', 'a=1', '--override', 'b=2', '--config', 'demo']
        >>> spread(["demonstrations", "mbpp-v0", "--kinds", "expression", "branch"])
        ['demonstrations', 'mbpp-v0', '--kinds', 'expression', '--kinds', 'branch']
    """
    # Click takes one value for each option, and the commands of the papers give several.
    result: list[str] = []
    option, values = "", 0  # the option of the next values, and how many it has so far
    for argument in arguments:
        if argument.startswith("-"):
            option, values = argument if argument in ("--override", "--kinds") else "", 0
        elif option == "--kinds" and values and argument not in KINDS:
            option = ""  # such as the id of the environment
        elif option:
            values += 1
            if values > 1:
                result.append(option)
        result.append(argument)
    return result


Functions = Mapping[Callable[..., None], str | None]
"""Functions of commands, and the last lines of their help."""

COMMANDS: Mapping[str, Functions] = {
    "Start": {
        demo.demo: "Example: llm-decpomdp demo",
        play.play: "Example: llm-decpomdp play bugfix-v0 --policy gold",
        check.list_: None,
        check.doctor: None,
    },
    "Train and measure": {
        train.train_: "Example: llm-decpomdp train --config demo --override algorithm.name=marloo env.num_turns=2",
        evaluate.eval_: evaluate.EXAMPLES,
        bench.plan: "Example: llm-decpomdp plan magrpo_che_config --gpus 8xh100",
        bench.bench: "Example: llm-decpomdp bench laptop --dry-run",
        publish.demonstrations: "Example: llm-decpomdp demonstrations mbpp-v0 --split train --output a.jsonl",
        serve.serve: "Example: llm-decpomdp serve coophumaneval-v0 --seat main_0 --partner aux_0=gold",
    },
    "During and after a run": {
        results.watch: "Example: llm-decpomdp watch runs/demo-20260101-120000",
        results.report: "Example: llm-decpomdp report runs/a runs/b --output both.html",
        publish.export: "Example: llm-decpomdp export runs/a --pairs --to jsonl",
        publish.publish: "Example: llm-decpomdp publish runs/a --push OWNER/NAME",
        publish.reward_model: "Example: llm-decpomdp reward-model --pairs runs/a/pairs-jsonl/train.jsonl "
        "--config demo --output runs/judge",
    },
}
GROUPS: Mapping[str, tuple[str, Functions]] = {
    "analyze": (
        "Measure how the agents of a team work together.",
        {
            results.credit: "Example: llm-decpomdp analyze credit runs/a",
            results.crossplay: "Example: llm-decpomdp analyze crossplay runs/a runs/b",
            results.partners: "Example: llm-decpomdp analyze partners runs/a runs/b",
            results.necessity: "Example: llm-decpomdp analyze necessity runs/eval-team runs/eval-single",
        },
    ),
    "check": (
        "Check an environment, the data of one, or the rewards of stored episodes.",
        {
            check.env: "Example: llm-decpomdp check env bugfix-v0",
            check.data: "Example: llm-decpomdp check data classeval-v0 --output audit.json",
            check.rewards: "Example: llm-decpomdp check rewards runs/a",
        },
    ),
}
# Scripts of users call them, so they stay.
OLD_NAMES: Mapping[str, Callable[..., None]] = {
    "credit": results.credit,
    "crossplay": results.crossplay,
    "partners": results.partners,
    "necessity": results.necessity,
    "audit": check.data,
    "rescore": check.rewards,
}
"""Commands of earlier versions, which help does not show."""

WITH_MODELS = {
    *("train", "demo", "eval", "play", "reward-model", "serve", "crossplay", "partners"),
    *("analyze crossplay", "analyze partners"),
}
"""Commands in whose process models compute."""

WITH_RESULTS = (
    *(check.list_, check.doctor, check.env, check.data, check.rewards),
    *(demo.demo, train.train_, publish.reward_model, evaluate.eval_, bench.plan, bench.bench),
    *(results.credit, results.crossplay, results.partners, results.necessity),
    *(results.report, publish.export, publish.demonstrations, publish.publish),
)

# Typer's own tracebacks may print local values, such as keys of servers.
app = typer.Typer(cls=CommandLine, no_args_is_help=True, pretty_exceptions_enable=False)


def command_name(function: Callable[..., None]) -> str:
    """Return the name of a command by that of its function, as in `eval` for `eval_`."""
    return function.__name__.rstrip("_").replace("_", "-")


def add_command(group: typer.Typer, name: str, function: Callable[..., None], **about: Any) -> None:
    """Add a command with the options of all commands."""
    # typer would keep the line breaks within later paragraphs of a docstring.
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    group.command(name, cls=Command, help=text, **about)(
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
        # Eager, so that it comes before the error of a missing command.
        bool, Option("--version", is_eager=True, callback=_version, help="Show the version.")
    ] = False,
) -> None:
    """Cooperative language-model agents as Dec-POMDPs: play, train, evaluate and report."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command."""
    # Commands of a group have two words, such as `analyze crossplay`.
    named = {" ".join(sys.argv[1:2]), " ".join(sys.argv[1:3])}
    if arguments is None and WITH_MODELS & named and "--help" not in sys.argv:
        # The settings of memory allocators are read once, when a process starts.
        from llm_decpomdp.benchmarks.runs import restart_with_settings

        with exit_codes():
            restart_with_settings()
    app(spread(sys.argv[1:] if arguments is None else arguments), prog_name=PROGRAM)
