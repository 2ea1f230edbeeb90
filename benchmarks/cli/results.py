"""The commands `report`, `export` and `reward-model`, which read the folders of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llm_decpomdp.benchmarks.cli.options import Overrides


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of runs, evaluations.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The page; by default report.html, of one run in its folder."
        ),
    ] = None,
    files: Annotated[
        bool,
        typer.Option("--files", help="Tables as CSV and figures as SVG and PNG, too."),
    ] = False,
) -> None:
    """Write one HTML page of runs: what they learned, what it cost, and every transcript.

    Runs whose configurations differ by the seed alone are shown as one.
    """
    from llm_decpomdp.benchmarks.report.document import report as write

    print(write(runs, output, files))


def export(
    run: Annotated[Path, typer.Argument(metavar="FOLDER", help="A run or an evaluation.")],
    to: Annotated[str, typer.Option(help="parquet, jsonl or hub-folder.")] = "parquet",
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A new folder; by default in the run's.")
    ] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Preference pairs instead of trajectories.")
    ] = False,
    min_margin: Annotated[
        float, typer.Option(min=0, help="The least difference in reward of a pair.")
    ] = 0,
    pair_kind: Annotated[
        str,
        typer.Option(help="joint, or single for pairs in which one agent alone said otherwise."),
    ] = "joint",
    pairs_per_group: Annotated[int, typer.Option(min=1, help="Most pairs of a group.")] = 1,
) -> None:
    """Write episodes as a data set: trajectories, or the best against the worst of each group."""
    from llm_decpomdp.benchmarks.export import write as exporting

    result = exporting.export(
        run,
        to,
        output,
        as_pairs=pairs,
        min_margin=min_margin,
        pair_kind=pair_kind,
        pairs_per_group=pairs_per_group,
    )
    for split, count in result.rows.items():
        print(f"{split}: {count} rows")
    print(result.folder)


def reward_model(
    pairs: Annotated[
        Path, typer.Option(metavar="FILE", help="Pairs, as export --pairs --to jsonl writes them.")
    ],
    config: Annotated[
        str, typer.Option(help="Name or path of the configuration whose runs are to learn from it.")
    ],
    output: Annotated[Path, typer.Option(metavar="FOLDER", help="Where reward_model.pt goes.")],
    override: Overrides = None,
    held_out: Annotated[
        float, typer.Option(help="Share of the tasks whose pairs judge it, between 0 and 1.")
    ] = 0.2,
    penalty: Annotated[
        float, typer.Option(help="Weight of half the squared norm of its weights.")
    ] = 0.01,
    part_length: Annotated[
        int, typer.Option(help="Most characters of a prompt or an answer that it reads.")
    ] = 4000,
) -> None:
    """Learn to score joint answers from pairs; train --override algorithm.reward_model=FILE learns by it."""
    from llm_decpomdp.algorithms.rewards.comparisons import RewardModelOptions
    from llm_decpomdp.benchmarks.config.catalogue import find_config
    from llm_decpomdp.benchmarks.config.errors import ConfigError
    from llm_decpomdp.benchmarks.config.load import read_config
    from llm_decpomdp.benchmarks.runs.build import train_reward_model

    try:
        options = RewardModelOptions(held_out=held_out, penalty=penalty, part_length=part_length)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    settings = read_config(find_config(config), override or ())
    path, report = train_reward_model(settings, pairs, output, options)
    print(f"pairs: {report['pairs']}, of which held out: {report['held_out_pairs']}")
    for part, prefix in (("training", "train_"), ("held-out", "")):
        print(
            f"{part} pairs: accuracy {report[f'{prefix}accuracy']:.3f}, loss {report[f'{prefix}loss']:.3f}, Brier "
            f"score {report[f'{prefix}brier']:.3f}, calibration error "
            f"{report[f'{prefix}calibration_error']:.3f}"
        )
    print(path)
