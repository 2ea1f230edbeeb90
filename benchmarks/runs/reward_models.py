"""Reward models from the command line: pairs and a configuration to a file that `algorithm.reward_model` names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from llm_decpomdp.algorithms.rewards.options import RewardModelOptions
from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError, writing
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.runs.setup import resolve

FILE = "reward_model.pt"
"""Name of the file in the folder of a reward model."""


class Trained(NamedTuple):
    """A reward model that was written."""

    path: Path
    report: dict[str, float]
    """The `report` of the model."""


def train_reward_model(
    config: Config, pairs: Path, output: Path, options: RewardModelOptions
) -> Trained:
    """Train a reward model with the frozen model of a configuration's team, and write it.

    Args:
        config: The configuration whose runs are to learn from it.
        pairs: A JSONL file that `export --pairs` has written.
        output: The folder of its file.
        options: How to train it; the seed is the configuration's.

    Raises:
        ConfigError: If there is a reward model already, or the pairs or the configuration do not fit.
        RunError: If the model gives no features, or the file cannot be written.
    """
    from llm_decpomdp.algorithms.rewards.comparisons import read_comparisons
    from llm_decpomdp.algorithms.rewards.reward_model import fit_reward_model
    from llm_decpomdp.algorithms.rewards.scorer import readers

    path = output / FILE
    if path.exists():
        raise ConfigError(f"{path} is there already: name another --output")
    run = resolve(replace(config, algorithm=replace(config.algorithm, reward_model=None)))
    agents = run.train_env.possible_agents
    try:
        comparisons = read_comparisons(pairs, agents, run.config.env.id)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    team = teams.load(run.config, (run.train_env, run.eval_env), run.team)
    reader = next(readers(team), None)
    if reader is None:
        raise RunError("no model of the team gives features: a reward model reads with one")
    try:
        model = fit_reward_model(
            comparisons, agents, reader, replace(options, seed=run.config.seed)
        )
    except ValueError as error:
        raise RunError(str(error)) from error
    with writing(output):
        output.mkdir(parents=True, exist_ok=True)
        model.save(path)
    return Trained(path, model.report)
