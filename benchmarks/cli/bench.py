"""The command `bench` of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command(
    rich_help_panel="Train and measure", epilog="Example: llm-decpomdp bench laptop --dry-run"
)
def bench(
    suite: Annotated[str | None, typer.Argument(help="Name or path of a suite.")] = None,
    show: Annotated[bool, typer.Option("--list", metavar="", help="Show the suites.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="CELL", help="Run this cell alone; may be given several times."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", metavar="", help="Check every cell, and say what it would cost."),
    ] = False,
    tokens_per_second: Annotated[
        float | None,
        typer.Option(
            metavar="N", min=0.001, help="With --dry-run: hours, where N are sampled a second."
        ),
    ] = None,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Cores to use at most; all if not given.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="By default runs/SUITE.")
    ] = None,
) -> None:
    """Run a suite of experiments, and write its league table. Stopped, the same command goes on.

    The exit code is 1 if a cell has failed; the others are not harmed by that.
    """
    from llm_decpomdp.benchmarks.cli import bench_run as benching
    from llm_decpomdp.benchmarks.cli.console import exit_codes, prepare_process
    from llm_decpomdp.benchmarks.config.errors import ConfigError

    prepare_process()
    with exit_codes():
        if show:
            benching.show_suites()
            return
        if suite is None:
            raise ConfigError("give a suite; --list shows those that come with the package")
        request = benching.Request(suite, only or (), dry_run, cores, output, tokens_per_second)
        raise SystemExit(0 if benching.bench(request) else 1)
