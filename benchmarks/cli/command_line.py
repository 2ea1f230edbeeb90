"""How commands are shown and run: help, exit codes, and the options of all commands."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Annotated, Any

from typer import Option
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from llm_decpomdp.benchmarks.cli.console import exit_codes, json_on_stdout, prepare_process
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
