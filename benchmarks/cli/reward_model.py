"""The command `reward-model`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llm_decpomdp.benchmarks.cli.options import Overrides


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
    from llm_decpomdp.algorithms.rewards.options import RewardModelOptions
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
