"""The commands that read the folders of runs: `watch`, `report` and `analyze`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from llm_decpomdp.benchmarks.cli.console import (
    MARKS,
    AllowEndpoint,
    AtATime,
    Checkpoint,
    Env,
    EnvOptions,
    Folder,
    Greedy,
    Output,
    Samples,
    Seed,
    Split,
    Tasks,
    complete_run,
    give_result,
)
from llm_decpomdp.benchmarks.config.errors import (
    ConfigError,
    check_output_file,
    raise_run_errors,
    refuse_repeats,
    require_no_file,
)
from llm_decpomdp.validation import unknown


def report(
    runs: Annotated[
        list[Path],
        Argument(metavar="RUN", help="Folders of runs, evaluations.", autocompletion=complete_run),
    ],
    output: Annotated[
        Path | None,
        Option(metavar="FILE", help="The page; by default report.html, of one run in its folder."),
    ] = None,
    files: Annotated[
        bool, Option("--files", help="Tables as CSV and figures as SVG and PNG, too.")
    ] = False,
) -> None:
    """Write one HTML page of runs: what they learned, what it cost, and every transcript.

    Runs whose configurations differ by the seed alone are shown as one.
    """
    from llm_decpomdp.benchmarks.report.document import report as write

    check_output_file(output, ".html")
    path = write(runs, output, files)
    print(path)
    give_result({"report": path})


def watch(
    run: Annotated[
        Path,
        Argument(
            metavar="RUN", help="The folder of a run, of any process.", autocompletion=complete_run
        ),
    ],
    interval: Annotated[
        float, Option(metavar="SECONDS", min=0.1, help="Time between two looks at its files.")
    ] = 2.0,
) -> None:
    """Show a training in the terminal while it goes on: progress, curve, warnings and the newest answers.

    It reads the files of the run alone, and ends with it. Ctrl-C leaves the training alone.
    """
    from rich.console import Console

    from llm_decpomdp.benchmarks.report.terminal import watch_run

    if not run.is_dir():
        raise ConfigError(f"{run} is no folder: name the folder of a run")
    if not any((run / name).exists() for name in ("config.yaml", *MARKS)):
        raise ConfigError(f"{run} holds no run: name the folder of one")
    watch_run(run, interval, Console(highlight=False))


def credit(
    folder: Folder,
    phase: Annotated[
        str | None,
        Option(help="eval or train; by default eval, or train where nothing was evaluated."),
    ] = None,
    seed: Annotated[
        int, Option(min=0, help="Decides which orders are drawn for over six agents.")
    ] = 0,
) -> None:
    """Find out which agent earned the team's rewards: what would have been earned without it."""
    from rich.console import Console

    from llm_decpomdp.benchmarks.analysis.credit_summary import credit_folder, table

    result = credit_folder(folder, phase, seed)
    console = Console(highlight=False)
    for warning in result.warnings:
        console.print(warning, style="yellow", soft_wrap=True)
    points = result.points
    # First and last show what training changed; files have all of them.
    for point in points if len(points) < 3 else (points[0], points[-1]):
        console.print(table(point))
    console.print(f"credit: {', '.join(map(str, result.files))}", soft_wrap=True)
    give_result({"files": result.files, **json.loads(result.files[0].read_bytes())})


def crossplay(
    runs: Annotated[
        list[Path],
        Argument(metavar="RUN", help="Runs or saved teams.", autocompletion=complete_run),
    ],
    agent: Annotated[
        str | None,
        Option(help="The agent that is taken from the column's run; by default the last one."),
    ] = None,
    swap_roles: Annotated[
        bool,
        Option(
            "--swap-roles", help="Exchange the first agent and --agent within each team instead."
        ),
    ] = False,
    checkpoint: Checkpoint = None,
    env: Env = None,
    env_option: EnvOptions = None,
    split: Split = None,
    tasks: Tasks = None,
    samples: Samples = 1,
    greedy: Greedy = False,
    seed: Seed = 0,
    at_a_time: AtATime = 64,
    allow_endpoint: AllowEndpoint = None,
    output: Output = None,
) -> None:
    """Let agents of different runs play together, or in each other's roles. Stopped, the same command goes on.

    The environment and the problems are those of the first run, unless they are given.
    """
    from rich.console import Console

    from llm_decpomdp.agents.saved_team import identify_team
    from llm_decpomdp.benchmarks.analysis import crossplay as exchanges
    from llm_decpomdp.benchmarks.evaluation.request import (
        EvalRequest,
        default_folder,
        resolve_request,
    )
    from llm_decpomdp.benchmarks.evaluation.teams import (
        load_teams,
        locate_team,
        make_greedy,
        run_names,
    )
    from llm_decpomdp.benchmarks.runs.data import warn_of_other_data

    if len(runs) < 2 and not swap_roles:
        raise ConfigError(
            "cross-play needs the folders of two runs at least; --swap-roles needs one"
        )
    refuse_repeats(runs)
    # Equal answers would count as independent samples, with intervals that are too narrow.
    if greedy and samples > 1:
        raise ConfigError("greedy samples are all equal: leave out --samples or --greedy")
    setting = resolve_request(
        EvalRequest(
            team=runs[0],
            checkpoint=checkpoint,
            env=env,
            env_options=env_option or (),
            split=split,
            allow_endpoints=allow_endpoint or (),
        )
    )
    names = run_names(runs)
    kind = "role-swap" if swap_roles else "crossplay"
    folder = output or default_folder(setting, f"{kind}-{'-'.join(names)}")
    # Before the teams are loaded.
    require_no_file(folder)
    if agent is not None and agent not in setting.env.possible_agents:
        raise ConfigError(unknown("agent", agent, setting.env.possible_agents))
    with raise_run_errors():
        starts = setting.starts(tasks)
        paths = {name: locate_team(run, checkpoint) for name, run in zip(names, runs, strict=True)}
        for run in runs:
            warn_of_other_data(run, setting.env)
        teams = load_teams(paths, setting)
        for team in teams.values() if greedy else ():
            make_greedy(team)
        play = exchanges.swap_roles if swap_roles else exchanges.cross_play
        result = play(
            setting.env,
            teams,
            starts,
            folder=folder,
            agent=agent,
            about={n: {**identify_team(path), "greedy": greedy} for n, path in paths.items()},
            samples=samples,
            seed=seed,
            at_a_time=at_a_time,
        )
    console = Console(highlight=False)
    for part in exchanges.tables(result):
        console.print(part)
    console.print(f"{'role swap' if swap_roles else 'cross-play'}: {folder}", soft_wrap=True)
    file = folder / (exchanges.SWAP_FILE if swap_roles else exchanges.FILE)
    give_result({"folder": folder, **json.loads(file.read_bytes())})


def partners(
    runs: Annotated[
        list[Path],
        Argument(
            metavar="RUN",
            help="A training run; after it one of another seed, or a saved team, that lends its partners. Of "
            "three runs or more each is lent those of the next.",
        ),
    ],
    tasks: Annotated[
        int | None, Option(min=1, help="Number of held-out problems, from the first on.")
    ] = None,
    samples: Samples = 1,
    seed: Seed = 0,
    at_a_time: AtATime = 16,  # few, for the small machines that the demo runs on
) -> None:
    """Exchange the partners of a trained team's last agent: is the gain lost? Then write the report anew.

    It plays the team before and after training, and with partners that were not trained, or come from another run.
    """
    from rich.console import Console

    from llm_decpomdp.benchmarks.analysis.partners import FOLDER, exchange_in_turn, table
    from llm_decpomdp.benchmarks.evaluation.folder import summary
    from llm_decpomdp.benchmarks.report.document import write_report
    from llm_decpomdp.utils.storage import RunFolder

    with raise_run_errors():
        evaluations = exchange_in_turn(
            runs, tasks=tasks, samples=samples, seed=seed, at_a_time=at_a_time
        )
    console = Console(highlight=False)
    console.print(table(evaluations))
    # Of two runs only the first was evaluated.
    for run in runs[: len(evaluations["after"])]:
        console.print(f"partners: {run / FOLDER}", soft_wrap=True)
        console.print(f"report: {write_report(RunFolder(run))}", soft_wrap=True)
    give_result({case: [summary(of) for of in several] for case, several in evaluations.items()})


def necessity(
    team: Annotated[Path, Argument(metavar="TEAM", help="An evaluation of a team.")],
    single: Annotated[
        Path, Argument(metavar="SINGLE", help="One of the baseline single_agent_matched.")
    ],
    margin: Annotated[
        float, Option(help="Loss of tests passed at which the team counts as no worse.")
    ] = 0.03,
) -> None:
    """Compare a team with a single agent task by task: what are several agents good for?"""
    from rich.console import Console

    from llm_decpomdp.benchmarks.analysis.necessity import compare_folders, tables

    result = compare_folders(team, single, margin)
    console = Console(highlight=False)
    console.print(tables(result))
    console.print(f"necessity: {team / 'necessity.json'}, {team / 'necessity.csv'}", soft_wrap=True)
    give_result(json.loads((team / "necessity.json").read_bytes()))
