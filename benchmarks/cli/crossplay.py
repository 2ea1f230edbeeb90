"""The command `crossplay`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llm_decpomdp.benchmarks.cli import options

if TYPE_CHECKING:
    from llm_decpomdp.benchmarks.evaluation.baselines import Setting
    from llm_decpomdp.policy import Team


def crossplay(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Runs or saved teams.")],
    agent: Annotated[
        str | None,
        typer.Option(help="Who comes from the column's run; by default the last agent."),
    ] = None,
    checkpoint: options.Checkpoint = None,
    env: options.Env = None,
    env_option: options.EnvOptions = None,
    split: options.Split = None,
    tasks: options.Tasks = None,
    samples: options.Samples = 1,
    greedy: options.Greedy = False,
    seed: options.Seed = 0,
    at_a_time: options.AtATime = 64,
    allow_endpoint: options.AllowEndpoint = None,
    output: options.Output = None,
) -> None:
    """Let agents of different runs play together. Stopped, the same command goes on.

    The environment and the problems are those of the first run, unless they are given.
    """
    from rich.console import Console

    from llm_decpomdp.benchmarks.analysis.crossplay import cross_play, table
    from llm_decpomdp.benchmarks.analysis.crossplay_teams import locate, names_of
    from llm_decpomdp.benchmarks.config.errors import ConfigError
    from llm_decpomdp.benchmarks.evaluation.request import Request, default_folder, setting_of
    from llm_decpomdp.benchmarks.runs import checkpoints as kept_teams
    from llm_decpomdp.benchmarks.runs.failures import as_run_errors

    if len(runs) < 2:
        raise ConfigError("cross-play needs the folders of two runs at least")
    if greedy and samples > 1:
        raise ConfigError("greedy answers are all the same: leave out --samples or --greedy")
    setting = setting_of(
        Request(
            team=runs[0],
            checkpoint=checkpoint,
            env=env,
            env_options=env_option or (),
            split=split,
            allow_endpoints=allow_endpoint or (),
        )
    )
    names = names_of(runs)
    folder = output or default_folder(setting, f"crossplay-{'-'.join(names)}")
    with as_run_errors():
        starts = setting.starts(tasks)
        paths = {name: locate(run, checkpoint) for name, run in zip(names, runs, strict=True)}
        for run in runs:
            kept_teams.warn_of_other_data(run, setting.env)
        result = cross_play(
            setting.env,
            _teams(paths, setting, greedy),
            starts,
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


def _teams(paths: Mapping[str, Path], setting: Setting, greedy: bool) -> dict[str, Team]:
    """Load the teams by name, whose models take their most likely token if `greedy`."""
    from llm_decpomdp.benchmarks.analysis.crossplay_teams import load_teams
    from llm_decpomdp.benchmarks.evaluation.teams import make_greedy

    teams = load_teams(paths, setting)
    for team in teams.values() if greedy else ():
        make_greedy(team)
    return teams
