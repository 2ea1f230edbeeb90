"""The teams that can be evaluated beside baselines: of a configuration, of a saved team, of a run."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.remote.endpoint import Endpoint
from llm_decpomdp.agents.saved_team import MANIFEST, load_saved_team, read_manifest
from llm_decpomdp.agents.scripted import RandomText
from llm_decpomdp.algorithms.rollouts.sampling import distinct_policies
from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.evaluation.baselines import Entry, Setting
from llm_decpomdp.benchmarks.runs import checkpoints as kept_teams
from llm_decpomdp.policy import Team, TrainablePolicy

logger = logging.getLogger(__name__)

HOW_ASKED = ("key_variable", "max_parallel", "timeout", "max_retries")
"""Keys of a policy behind a server that change nothing of what it says: an evaluation goes on with others."""


def of_config(setting: Setting) -> Entry:
    """Load the team of a configuration, before any training.

    Raises:
        ConfigError: If the team does not fit the environment.
        RunError: If a model cannot be loaded.
    """
    env, config = setting.env, setting.config
    return Entry(env, teams.load(config, [env]), about=_declared(config))


def _declared(config: Config) -> dict[str, Any]:
    """Return the part of a configuration that declares its team."""
    policies = {
        name: {key: value for key, value in (policy or {}).items() if key not in HOW_ASKED}
        for name, policy in config.policies.items()
    }
    return {"model": asdict(config.model), "team": config.team, "policies": policies}


def of_folder(folder: Path, setting: Setting) -> Entry:
    """Load a saved team, or a checkpoint of a run with the configuration of the run.

    Args:
        folder: As `kept_teams.locate` finds it.
        setting: The environment that it plays; of a run, with the run's own configuration.

    Raises:
        ConfigError: If the team does not fit the environment.
        RunError: If a model cannot be loaded.
    """
    return (_saved if (folder / MANIFEST).is_file() else _restored)(folder, setting)


def _saved(folder: Path, setting: Setting) -> Entry:
    env, model = setting.env, setting.config.model
    try:
        agents = read_manifest(folder)["agents"]
        if set(agents) != set(env.possible_agents):
            raise ConfigError(
                f"the team in {folder} plays {', '.join(agents)}, and {setting.env_id} has "
                f"{', '.join(env.possible_agents)}: play it in its own environment"
            )
        team = load_saved_team(
            folder,
            device=model.device,
            seed=setting.config.seed,
            allow_code=teams.code_of(setting.config),
            allow_endpoints=(*setting.allow_endpoints, *teams.endpoints_of(setting.config)),
        )
    except (OSError, ImportError, TypeError) as error:
        raise RunError(f"cannot load the team in {folder}: {error}") from error
    return Entry(env, team, about=kept_teams.kept(folder))


def _restored(path: Path, setting: Setting) -> Entry:
    """Load the team of a configuration with the weights of a checkpoint."""
    env = setting.env
    team = teams.load(setting.config, [env])
    kept_teams.restore(team, path)
    return Entry(
        env, team, about={**_declared(setting.config), "checkpoint": kept_teams.kept(path)}
    )


def make_greedy(team: Team) -> None:
    """Let every model of a team take its most likely token always.

    Raises:
        ConfigError: If a policy can only draw at random.
    """
    for name, policy in distinct_policies(team).items():
        if isinstance(policy, RandomText):
            raise ConfigError(
                f"{name} says random text, of which none is the likeliest: leave out --greedy"
            )
        if isinstance(policy, Endpoint):
            if "temperature" in (policy.omit or ()):
                raise ConfigError(
                    f"{policy.model!r} is asked without a temperature (omit), so --greedy cannot set it: leave "
                    "out --greedy"
                )
            policy.temperature = 0.0
        elif isinstance(policy, TrainablePolicy):
            from llm_decpomdp.agents.models.causal_lm import CausalLM

            if isinstance(policy, CausalLM):
                policy.sampling = replace(policy.sampling, temperature=0.0)
