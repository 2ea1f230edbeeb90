"""The commands that look into cooperation: `rescore`, `credit`, `necessity` and `crossplay`.

Commands load what they need when they run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A run or an evaluation.")]


@app.command()
def rescore(
    folder: Folder,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="All differences, as JSON Lines.")
    ] = None,
) -> None:
    """Grade stored episodes again, and name what differs.

    The exit code is 1 if anything does.
    """
    from llm_decpomdp.benchmarks.console import exit_codes, prepare_process
    from llm_decpomdp.benchmarks.cooperation.rescore import rescore as again

    prepare_process()
    with exit_codes():
        result = again(folder, output)
        print("\n".join(result.lines()))
        raise SystemExit(1 if result.differences else 0)


@app.command()
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
    from llm_decpomdp.benchmarks.console import exit_codes, prepare_process
    from llm_decpomdp.benchmarks.cooperation import credit_command

    prepare_process()
    with exit_codes():
        credit_command.run(folder, phase, seed)


@app.command()
def necessity(
    team: Annotated[Path, typer.Argument(metavar="TEAM", help="An evaluation of a team.")],
    single: Annotated[
        Path,
        typer.Argument(metavar="SINGLE", help="One of the baseline single_agent_matched."),
    ],
) -> None:
    """Compare a team with a single agent task by task: what are several agents good for?"""
    from llm_decpomdp.benchmarks.console import exit_codes, prepare_process
    from llm_decpomdp.benchmarks.cooperation import necessity as comparing

    prepare_process()
    with exit_codes():
        comparing.run(team, single)


@app.command()
def crossplay(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs or saved teams.")],
    agent: Annotated[
        str | None,
        typer.Option(help="Who comes from the column's run; by default the last agent."),
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Which teams of the runs: final, best or last.")
    ] = None,
    env: Annotated[
        str | None, typer.Option(help="An environment instead of the first run's.")
    ] = None,
    env_option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An argument of the environment.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Which problems; by default the first run's held-out.")
    ] = None,
    tasks: Annotated[
        int | None, typer.Option(min=1, help="How many of them, from the first on.")
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Episodes of each problem.")] = 1,
    greedy: Annotated[bool, typer.Option("--greedy", help="Take the likeliest token.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Decides what is sampled.")] = 0,
    at_a_time: Annotated[int, typer.Option(min=1, help="Episodes that are played together.")] = 64,
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where the results go.")
    ] = None,
) -> None:
    """Let agents of different runs play together. Stopped, the same command goes on."""
    from llm_decpomdp.benchmarks.console import exit_codes, prepare_process
    from llm_decpomdp.benchmarks.cooperation import crossplay_command
    from llm_decpomdp.benchmarks.evaluation.command import Request

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
