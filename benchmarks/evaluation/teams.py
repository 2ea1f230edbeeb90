"""Teams for evaluations: of a configuration, of a saved team, of a run, of models behind servers."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from llm_decpomdp.agents import Endpoint, PolicySpec, RandomText, load_saved_team, load_team
from llm_decpomdp.agents.saved_team import (
    MANIFEST,
    check_trust,
    declaration,
    identify_team,
    read_manifest,
)
from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.inputs import parse_overrides
from llm_decpomdp.benchmarks.config.load import merged
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.evaluation.baselines import EvalConfig, TeamUnderTest
from llm_decpomdp.benchmarks.runs import checkpoints as kept_teams
from llm_decpomdp.benchmarks.runs.setup import load_config, load_policies
from llm_decpomdp.policy import Team, TrainablePolicy, distinct_policies

OPENAI_KEY = "OPENAI_API_KEY"

HOW_ASKED = ("key_variable", "max_parallel", "timeout", "max_retries")
"""Keys of a remote policy without an effect on its answers, so that an evaluation can go on with other values."""


def load_configured_team(setting: EvalConfig) -> TeamUnderTest:
    """Load the team of a configuration, before any training; raises the errors of `load_policies`."""
    team = load_policies(setting.config, [setting.env])
    return TeamUnderTest(setting.env, team, about=_declaration(setting.config))


def _declaration(config: Config) -> dict[str, Any]:
    policies = {
        name: {key: value for key, value in (policy or {}).items() if key not in HOW_ASKED}
        for name, policy in config.policies.items()
    }
    return {"model": asdict(config.model), "team": config.team, "policies": policies}


def load_stored_team(folder: Path, setting: EvalConfig) -> TeamUnderTest:
    """Load a saved team, or a checkpoint, for which `setting` has the configuration of the run.

    Raises:
        ConfigError: If the team does not fit the environment.
        RunError: If a model cannot be loaded.
    """
    env, identity = setting.env, identify_team(folder)
    if not (folder / MANIFEST).is_file():
        team = load_policies(setting.config, [env])
        kept_teams.restore(team, folder)
        return TeamUnderTest(
            env, team, about={**_declaration(setting.config), "checkpoint": identity}
        )
    try:
        agents = read_manifest(folder)["agents"]
        if set(agents) != set(env.possible_agents):
            raise ConfigError(
                f"the team in {folder} plays {', '.join(agents)}, and {setting.env_id} has "
                f"{', '.join(env.possible_agents)}: play it in its own environment"
            )
        team = load_saved_team(
            folder,
            device=setting.config.model.device,
            seed=setting.config.seed,
            allow_code=teams.code_of(setting.config),
            allow_endpoints=(*setting.allow_endpoints, *teams.endpoints_of(setting.config)),
        )
    except (OSError, ImportError, TypeError) as error:
        raise RunError(f"cannot load the team in {folder}: {error}") from error
    return TeamUnderTest(env, team, about=identity)


def make_greedy(team: Team) -> None:
    """Let every model of a team take its most likely token; raise a `ConfigError` if a policy can only sample."""
    for name, policy in distinct_policies(team).items():
        if isinstance(policy, RandomText):
            raise ConfigError(
                f"{name} writes random text, which has no likeliest token: leave out --greedy"
            )
        if isinstance(policy, Endpoint):
            if "temperature" in (policy.omit or ()):
                raise ConfigError(
                    f"requests to {policy.model!r} have no temperature (omit), so --greedy cannot set it: leave "
                    "out --greedy"
                )
            # Servers have no greedy mode; temperature 0 is what their protocol offers.
            policy.temperature = 0.0
        elif isinstance(policy, TrainablePolicy):
            from llm_decpomdp.agents import CausalLM

            if isinstance(policy, CausalLM):
                policy.sampling = replace(policy.sampling, temperature=0.0)


@dataclass(frozen=True)
class RemoteModel:
    """A model behind a server, which plays all agents."""

    name: str
    base_url: str | None = None
    key_variable: str | None = None
    options: Sequence[str] = ()
    """Further keys of its policy, such as `timeout=60`."""

    def play(self, config: Config) -> Config:
        """Return the configuration with this model, if it has no team; raise a `ConfigError` without a server."""
        if config.team or config.policies:
            raise ConfigError("--model plays all agents: drop `team` and `policies`, or --model")
        key = self.key_variable or OPENAI_KEY
        if not (self.base_url or os.environ.get("OPENAI_BASE_URL") or os.environ.get(key)):
            raise ConfigError(
                f"no server for --model {self.name}: give --base-url URL, or set {key} for OpenAI's API. "
                f"A model of this machine or the hub is --override model.name={self.name}"
            )
        rule = "an option of the model must look like KEY=VALUE"
        policy: dict[str, Any] = {"kind": "endpoint", "name": self.name}
        policy |= {"base_url": self.base_url, "key_variable": key}
        policy |= merged(None, parse_overrides(self.options, wanted=rule))
        model = replace(config.model, shared=True)
        return replace(config, model=model, team={}, policies={teams.SHARED: policy})

    @property
    def slug(self) -> str:
        """The name as a part of a folder's name."""
        # Without dots at the ends, so that no name is that of a hidden folder or of a parent.
        return re.sub(r"[^A-Za-z0-9_.+-]+", "-", self.name).strip(".-") or "model"


def remote_models(
    names: Sequence[str],
    base_urls: Sequence[str],
    key_variables: Sequence[str],
    options: Sequence[str],
) -> list[RemoteModel]:
    """Read the models of a command line; an address or a key that is given once is for all of them."""
    if not names and (base_urls or key_variables or options):
        raise ConfigError("--base-url, --key-variable and --model-option need a --model NAME")
    if not all(names):
        raise ConfigError("--model needs the name of a model, got ''")
    for flag, values in (("--base-url", base_urls), ("--key-variable", key_variables)):
        if len(values) not in (0, 1, len(names)):
            raise ConfigError(
                f"{flag} is given {len(values)} times for {len(names)} models: give it once, or once for each"
            )

    def nth(values: Sequence[str], number: int) -> str | None:
        return values[number if len(values) > 1 else 0] if values else None

    models = [
        RemoteModel(name, nth(base_urls, number), nth(key_variables, number), options)
        for number, name in enumerate(names)
    ]
    # Several models are evaluated in separate folders, named by the model.
    for slug, count in Counter(model.slug for model in models).items():
        if count > 1:
            raise ConfigError(
                f"two models would share the folder {slug!r}: evaluate them one by one, each with --output"
            )
    return models


def load_teams(paths: Mapping[str, Path], setting: EvalConfig) -> dict[str, Team]:
    """Load the teams of folders of saved teams and checkpoints.

    Saved teams share base models, also between runs. A team from a checkpoint has its own base model.

    Raises:
        ConfigError: If a checkpoint does not fit its configuration.
        RunError: If a model cannot be loaded.
    """
    agents: dict[str, str] = {}
    policies: dict[str, PolicySpec] = {}
    checkpoints: dict[str, Team] = {}
    roles: dict[str, Mapping[str, str]] = {}
    try:
        for number, (name, path) in enumerate(paths.items()):
            if not (path / MANIFEST).is_file():
                # A checkpoint is two folders below its run.
                config = load_config(path.parents[1] / "config.yaml")
                checkpoints[name] = load_policies(config, [setting.env])
                kept_teams.restore(checkpoints[name], path)
                continue
            roles[name], specs = declaration(path, device=setting.config.model.device)
            run = path.with_name("config.yaml")
            trusted = load_config(run) if run.is_file() else setting.config
            endpoints = (*setting.allow_endpoints, *teams.endpoints_of(trusted))
            check_trust(path, specs, teams.code_of(trusted), endpoints)
            # The number of the run, as policies of different runs have equal names.
            agents |= {f"{name}/{a}": f"{number}_{policy}" for a, policy in roles[name].items()}
            policies |= {f"{number}_{policy}": spec for policy, spec in specs.items()}
        together = load_team(agents, policies, seed=setting.config.seed) if agents else {}
    except (OSError, ImportError, TypeError) as error:
        raise RunError(f"cannot load the teams: {error}") from error
    from_saved = {name: {a: together[f"{name}/{a}"] for a in of} for name, of in roles.items()}
    return {name: checkpoints.get(name) or from_saved[name] for name in paths}


def locate_team(folder: Path, checkpoint: str | None) -> Path:
    """Return the folder of a saved team, or of a checkpoint of a run."""
    file = folder / "config.yaml"
    return kept_teams.locate(folder, checkpoint, load_config(file if file.is_file() else None))


def run_names(runs: Sequence[Path]) -> list[str]:
    """Return a unique name for each folder: its own, or that of the folder around it if all names are equal."""
    folders = [run.resolve() for run in runs]
    # The trainings of a suite are all called `training`; their parents tell them apart.
    while len({folder.name for folder in folders}) == 1 < len(set(folders)):
        folders = [folder.parent for folder in folders]
    names: list[str] = []
    for folder in folders:
        name, number = folder.name, 2
        while name in names:
            name, number = f"{folder.name}-{number}", number + 1
        names.append(name)
    return names
