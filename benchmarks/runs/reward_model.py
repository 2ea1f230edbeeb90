"""Reward models of joint answers, trained from stored pairs: `llm-decpomdp reward-model`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from llm_decpomdp.algorithms.rewards.comparisons import RewardModelOptions, read_comparisons
from llm_decpomdp.algorithms.rewards.reward_model import fit_reward_model
from llm_decpomdp.algorithms.rewards.scorer import readers
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError, writing
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.runs.setup import load_policies, resolve


def train_reward_model(
    config: Config, pairs: Path, output: Path, **options: Any
) -> tuple[Path, dict[str, Any]]:
    """Train a reward model, and write `reward_model.pt`.

    Args:
        config: The configuration whose runs are to learn from it.
        pairs: The file of the pairs.
        output: The folder.
        **options: Further `RewardModelOptions`; their seed is that of the configuration.

    Returns:
        The path of the file, and what is known of its quality.

    Raises:
        ConfigError: If the file exists, an option is out of its range, or the pairs do not fit the configuration.
        RunError: If no model of the team gives features, or the model cannot be trained or written.
    """
    path = output / "reward_model.pt"
    if path.exists():
        raise ConfigError(f"{path} is there already: name another --output")
    try:
        checked = RewardModelOptions(seed=config.seed, **options)
        # The configuration may name the reward model that is trained here, which does not exist yet.
        run = resolve(replace(config, algorithm=replace(config.algorithm, reward_model=None)))
        agents = run.train_env.possible_agents
        comparisons = read_comparisons(pairs, agents, run.config.env.id)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    team = load_policies(run.config, run.envs, run.team)
    features = next(readers(team), None)
    if features is None:
        raise RunError("no model of the team gives features: a reward model reads with one")
    try:
        model = fit_reward_model(comparisons, agents, features, checked)
    except ValueError as error:
        raise RunError(str(error)) from error
    with writing(output):
        output.mkdir(parents=True, exist_ok=True)
        model.save(path)
    return path, dict(model.report)
