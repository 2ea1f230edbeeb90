"""The command line: `llm-decpomdp`, `python -m llm_decpomdp` or `python -m llm_decpomdp.benchmarks`.

Modules of commands import what parses their options; the rest is
imported by the command that is run, so that help and completion are fast.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer import Option

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
from llm_decpomdp.benchmarks.cli.console import (
    PROGRAM,
    Command,
    CommandGroup,
    CommandLine,
    exit_codes,
    spread,
    with_output_options,
)

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
