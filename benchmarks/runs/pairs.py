"""Stored pairs and opponents of a run that learns from preferences."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.saved_team import load_saved_team, read_manifest
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.policy import Team


def check_opponent(folder: str | None, agents: Collection[str]) -> None:
    """Raise a `ConfigError` unless the folder of `algorithm.preferences.opponent` holds a team of these agents."""
    if folder is None:
        return
    try:
        plays = read_manifest(Path(folder))["agents"]
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"algorithm.preferences.opponent={folder} is neither current, nor history, nor a team that "
            f"output.save_final_model has written: {error}"
        ) from None
    if set(plays) != set(agents):
        raise ConfigError(
            f"algorithm.preferences.opponent: the team in {folder} plays {', '.join(plays)}, and the environment "
            f"has {', '.join(agents)}"
        )


def read_pairs(config: Config, team: teams.TeamSpec) -> list[Rollout]:
    """Read the stored pairs of a run; none if the run samples."""
    preferences, source = config.algorithm.preferences, config.algorithm.pairs_source
    if preferences is None or source is None:
        return []
    models = {agent: team.policies[name].name for agent, name in team.agents.items()}
    try:
        # Imported here, because only runs that learn from stored pairs need it.
        from llm_decpomdp.algorithms.preferences.stored import stored_pairs

        return stored_pairs(Path(source), models, preferences.pairs_per_start, config.env.id)
    except ValueError as error:
        raise ConfigError(f"algorithm.preferences.source: {error}") from None


def identify_pairs(config: Config, count: int) -> dict[str, Any]:
    """Identify the file of the stored pairs of a run, by a key of the manifest; `count` is their number."""
    from llm_decpomdp.algorithms.preferences import stored

    return {"pairs": stored.identify_pairs(Path(str(config.algorithm.pairs_source)), count)}


def load_opponents(config: Config) -> Team:
    """Load the saved team that preference pairs compare the team with.

    Raises:
        RunError: If it cannot be loaded.
        ValueError: If it names code or servers that the configuration does not name.
    """
    folder = str(config.algorithm.named_comparator)
    try:
        return load_saved_team(
            folder,
            device=config.model.device,
            seed=config.seed,
            allow_code=teams.code_of(config),
            allow_endpoints=teams.endpoints_of(config),
        )
    except (OSError, ImportError) as error:
        raise RunError(f"cannot load the team in {folder}: {error}") from error
