"""The command line of `train_grpo.py`, `train_magrpo.py` and `train_mt_magrpo.py`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llm_decpomdp.benchmarks.cli.console import exit_codes, prepare_process
from llm_decpomdp.benchmarks.cli.run_text import conclude
from llm_decpomdp.benchmarks.config.errors import ALONE, ConfigError
from llm_decpomdp.benchmarks.config.load import find_config, read_config
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.report.live import LiveReport
from llm_decpomdp.benchmarks.runs import restart_with_settings
from llm_decpomdp.benchmarks.runs.resume import resume
from llm_decpomdp.benchmarks.runs.train import train

FLAGS = {
    "model_name": "model.name",
    "output_base_dir": "output.base_dir",
    "num_epochs": "algorithm.num_train_epochs",
    "num_turns": "env.num_turns",
    "turn_gradient_weights": "algorithm.turn_gradient_weights",
}

DEFAULTS: dict[str, dict[str, Any]] = {
    "grpo": {"algorithm.name": "grpo", "env.num_agents": 1},
    "magrpo": {"algorithm.name": "magrpo"},
}


def main(algorithm: str, config: str, arguments: Sequence[str] | None = None) -> None:
    """Run a script."""
    if arguments is None:
        with exit_codes():
            restart_with_settings()
    prepare_process()
    options = parser(config).parse_args(arguments)
    with exit_codes():
        if options.resume is None:
            conclude(train(*read(algorithm, config, options), [LiveReport]))
        elif options.config or _flags(options):
            raise ConfigError(ALONE)
        else:
            conclude(resume(options.resume, options.override, [LiveReport]))


def parser(config: str) -> argparse.ArgumentParser:
    """Return the parser of a script whose configuration is `config` by default."""
    # The papers' commands have underscores and options of several values, which Typer does not take.
    flags = argparse.ArgumentParser(description="Train language models as a configuration says.")
    flags.add_argument("--config", help=f"name or path of a YAML file (default: {config})")
    flags.add_argument(
        "--override",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="set keys of the configuration, as in algorithm.learning_rate=1e-5",
    )
    flags.add_argument("--model_name", help="the model, by its transformers name or path")
    flags.add_argument("--output_base_dir", help="where run folders go")
    flags.add_argument("--num_epochs", type=int, help="passes over the training problems")
    flags.add_argument("--num_turns", type=int, help="turns of an episode")
    flags.add_argument(
        "--turn_gradient_weights", type=float, nargs="+", help="weight of each turn's loss"
    )
    flags.add_argument("--resume", type=Path, metavar="FOLDER", help="continue an interrupted run")
    return flags


def read(algorithm: str, config: str, options: argparse.Namespace) -> tuple[Config, str]:
    """Return the configuration that a parsed command line means, and its name."""
    path = find_config(options.config or config)
    settings = read_config(path, options.override, _flags(options), DEFAULTS[algorithm])
    # A script would otherwise train silently with an algorithm that its name denies.
    if settings.algorithm.name != algorithm:
        raise ConfigError(
            f"this script trains with {algorithm}, and {path.stem} with {settings.algorithm.name}: "
            f"use llm-decpomdp train --config {path.stem} "
            f"--override algorithm.name={settings.algorithm.name}"
        )
    return settings, path.stem


def _flags(options: argparse.Namespace) -> dict[str, Any]:
    values = {key: getattr(options, flag) for flag, key in FLAGS.items()}
    return {key: value for key, value in values.items() if value is not None}
