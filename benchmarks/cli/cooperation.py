"""The commands that look into cooperation: `rescore`, `credit`, `necessity` and `crossplay`.

Commands load what they need when they run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llm_decpomdp.benchmarks.cli.evaluation_options import (
    AtATime,
    Checkpoint,
    Env,
    EnvOptions,
    Greedy,
    Output,
    Samples,
    Seed,
    Split,
    Tasks,
)

app = typer.Typer()

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A run or an evaluation.")]


@app.command(rich_help_panel="After a run", epilog="Example: llm-decpomdp rescore runs/a")
def rescore(
    folder: Folder,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="All differences, as JSON Lines.")
    ] = None,
) -> None:
    """Grade stored episodes again, and name what differs.

    The exit code is 1 if anything does.
    """
    from llm_decpomdp.benchmarks.cli.console import exit_codes, prepare_process
    from llm_decpomdp.benchmarks.cooperation.rescore import rescore as again
    from llm_decpomdp.utils.terminal import visible

    prepare_process()
    with exit_codes():
        result = again(folder, output)
        print(visible("\n".join(result.lines())))
        raise SystemExit(1 if result.differences else 0)


@app.command(rich_help_panel="After a run", epilog="Example: llm-decpomdp credit runs/a")
def credit(
    folder: Folder,
    phase: Annotated[
        str | None,
        typer.Option(help="eval or train; by default eval, or train where nothing was evaluated."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Decides which orders are drawn for over six agents.")
    ] = 0,
) -> None:
    """Find out which agent earned the team's rewards: what would have been earned without it."""
    from llm_decpomdp.benchmarks.cli import credit as credit_command
    from llm_decpomdp.benchmarks.cli.console import exit_codes, prepare_process

    prepare_process()
    with exit_codes():
        credit_command.run(folder, phase, seed)


@app.command(
    rich_help_panel="After a run",
    epilog="Example: llm-decpomdp necessity runs/eval-team runs/eval-single",
)
def necessity(
    team: Annotated[Path, typer.Argument(metavar="TEAM", help="An evaluation of a team.")],
    single: Annotated[
        Path,
        typer.Argument(metavar="SINGLE", help="One of the baseline single_agent_matched."),
    ],
) -> None:
    """Compare a team with a single agent task by task: what are several agents good for?"""
    from llm_decpomdp.benchmarks.cli.console import exit_codes, prepare_process
    from llm_decpomdp.benchmarks.cooperation import necessity as comparing

    prepare_process()
    with exit_codes():
        comparing.run(team, single)


@app.command(
    rich_help_panel="Train and measure", epilog="Example: llm-decpomdp crossplay runs/a runs/b"
)
def crossplay(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Runs or saved teams.")],
    agent: Annotated[
        str | None,
        typer.Option(help="Who comes from the column's run; by default the last agent."),
    ] = None,
    checkpoint: Checkpoint = None,
    env: Env = None,
    env_option: EnvOptions = None,
    split: Split = None,
    tasks: Tasks = None,
    samples: Samples = 1,
    greedy: Greedy = False,
    seed: Seed = 0,
    at_a_time: AtATime = 64,
    output: Output = None,
) -> None:
    """Let agents of different runs play together. Stopped, the same command goes on.

    The environment and the problems are those of the first run, unless they are given.
    """
    from llm_decpomdp.benchmarks.cli import crossplay as crossplay_command
    from llm_decpomdp.benchmarks.cli.console import exit_codes, prepare_process
    from llm_decpomdp.benchmarks.cli.evaluate import Request

    prepare_process()
    with exit_codes():
        request = Request(
            checkpoint=checkpoint,
            env=env,
            env_options=env_option or (),
            split=split,
            tasks=tasks,
            samples=samples,
            greedy=greedy,
            seed=seed,
            at_a_time=at_a_time,
            output=output,
        )
        crossplay_command.run(runs, request, agent)
