"""The command `crossplay`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llm_decpomdp.benchmarks.cli.options import (
    MEASURE,
    AtATime,
    Checkpoint,
    Command,
    Env,
    EnvOptions,
    Greedy,
    Output,
    Samples,
    Seed,
    Split,
    Tasks,
)

if TYPE_CHECKING:
    from llm_decpomdp.benchmarks.evaluation.baselines import Setting

app = typer.Typer()


@app.command(
    cls=Command, rich_help_panel=MEASURE, epilog="Example: llm-decpomdp crossplay runs/a runs/b"
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
    from rich.console import Console

    from llm_decpomdp.algorithms.rollouts.rollout import Start
    from llm_decpomdp.benchmarks.cli.request import Request, setting_of
    from llm_decpomdp.benchmarks.config.errors import ConfigError
    from llm_decpomdp.benchmarks.cooperation.crossplay import cross_play, table
    from llm_decpomdp.benchmarks.cooperation.crossplay_teams import load_teams, locate, names_of
    from llm_decpomdp.benchmarks.evaluation.teams import make_greedy
    from llm_decpomdp.benchmarks.runs import kept_teams
    from llm_decpomdp.benchmarks.runs.failures import as_run_errors

    if len(runs) < 2:
        raise ConfigError("cross-play needs the folders of two runs at least")
    if greedy and samples > 1:
        raise ConfigError("greedy answers are all the same: leave out --samples or --greedy")
    request = Request(
        team=runs[0], checkpoint=checkpoint, env=env, env_options=env_option or (), split=split
    )
    setting = setting_of(request)
    names = names_of(runs)
    folder = output or _folder(names, setting)
    with as_run_errors():
        environment = setting.env
        starts = [Start(task_id=task.task_id) for task in environment.tasks.tasks]
        paths = {name: locate(run, checkpoint) for name, run in zip(names, runs, strict=True)}
        for run in runs:
            kept_teams.warn_of_other_data(run, environment)
        teams = load_teams(paths, setting)
        if greedy:
            for team in teams.values():
                make_greedy(team)
        result = cross_play(
            environment,
            teams,
            starts[:tasks],
            folder=folder,
            agent=agent,
            samples=samples,
            seed=seed,
            at_a_time=at_a_time,
            about={n: {**kept_teams.kept(path), "greedy": greedy} for n, path in paths.items()},
        )
    console = Console(highlight=False)
    for measure in result.matrices:
        console.print(table(result, measure))
    console.print(f"cross-play: {folder}", soft_wrap=True)


def _folder(names: Sequence[str], setting: Setting) -> Path:
    """Return the default folder: equal for equal runs and environments, so that the same command goes on."""
    runs, place = "-".join(names), setting.env_id.replace(":", "-")
    return Path(setting.config.output.base_dir) / f"crossplay-{runs}-{place}"
