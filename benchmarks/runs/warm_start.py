"""A new run that begins with the trained team of another: `llm-decpomdp train --from RUN`.

The configuration of the new run names the folders of the trained policies, so that it says by itself how it began.
Weights and adapters are all that goes over: optimizers, schedules, counters and random streams begin anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.saved_team import MANIFEST, declaration, save_team
from llm_decpomdp.agents.team import saved_adapter
from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.catalogue import find_config
from llm_decpomdp.benchmarks.config.errors import ConfigError, writing
from llm_decpomdp.benchmarks.config.legacy import renamed
from llm_decpomdp.benchmarks.config.load import load_config, load_stored_config, validate
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.runs import kept_teams
from llm_decpomdp.benchmarks.runs import train as run
from llm_decpomdp.utils.storage import RunFolder

FRESH = ("output.name=null", "output.save_path=null")
"""What a new run does not take over from another's configuration: where that one has its results."""

DECIDED = ("name", "lora")
"""Keys of a model that the trained team decides."""


def settings(
    source: Path, config: str | None, overrides: Sequence[str], flags: Mapping[str, Any]
) -> tuple[Config, str]:
    """How the team of another run is to be trained, and that configuration's name.

    Args:
        source: The folder of the run, or of a saved team.
        config: Name or path of a configuration; `None` takes that of the run.
        overrides: Items such as `algorithm.learning_rate=1e-6`.
        flags: Dotted keys and values that win over the overrides.

    Raises:
        ConfigError: If there is no configuration, or a value is wrong or names other models.
    """
    for item in overrides:
        section, *_, last = renamed(item.partition("=")[0]).split(".")
        if section in ("model", "policies") and last in DECIDED:
            raise ConfigError(
                f"{item!r}: the models and the shape of their adapters are those in {source}; leave it out"
            )
    if config is not None:
        path = find_config(config)
        return load_config(path, overrides, flags), path.stem
    if not source.is_dir():
        raise ConfigError(
            f"there is no folder {source}: --from takes that of a run or of a saved team"
        )
    path = source / "config.yaml"
    if not path.is_file():
        raise ConfigError(f"{source} holds no config.yaml: say how to train its team with --config")
    return load_config(path, [*FRESH, *overrides], flags), RunFolder(source).read_manifest()[
        "config"
    ]


def train_from(source: Path, config: Config, name: str) -> run.Result:
    """Train the team that another run has left, in a new run folder.

    Args:
        source: The folder of the run, or of a saved team.
        config: What to do, as `settings` gives it.
        name: The configuration's name.

    Raises:
        ConfigError: If there is no team, or it does not fit the configuration.
        RunError: As `run.train`.
        Interrupted: As `run.train`.
    """
    theirs = source / "config.yaml"
    before = load_stored_config(theirs) if theirs.is_file() else config
    team = kept_teams.locate(source, None, before)
    if not (team / MANIFEST).is_file():
        config, team = _exported(team, before, config, name)
    return run.train(beginning_with(team, config), name, kept_teams.kept(team))


def beginning_with(team: Path, config: Config) -> Config:
    """The configuration whose models are those of a saved team; whatever else plays in it stays as it is.

    Raises:
        ConfigError: If the agents are others, or some that share a policy have different ones in the saved team.
    """
    played, saved = declaration(team.resolve())
    agents = config.make_env(config.dataset.train_split).possible_agents
    if set(played) != set(agents):
        raise ConfigError(
            f"the team in {team} plays {', '.join(played)}, and {config.env.id} has {', '.join(agents)}"
        )
    names, policies = teams.agents_of(config, agents), dict(config.policies)
    for name, spec in teams.policies_of(config, names).items():
        sources = {played[agent] for agent in agents if names[agent] == name}
        if spec.kind != "model":
            continue
        if len(sources) > 1:
            raise ConfigError(
                f"agents that share the policy {name!r} have {', '.join(sorted(sources))} in {team}: give each "
                "its own, as in `team` there"
            )
        found = saved[sources.pop()]
        if found.kind == "model":
            policies[name] = {**(policies.get(name) or {}), "name": found.name}
            if saved_adapter(str(found.name)) is not None:
                policies[name]["lora"] = None
    return validate(replace(config, policies=policies))


def _exported(checkpoint: Path, before: Config, config: Config, name: str) -> tuple[Config, Path]:
    """The team of a checkpoint, saved in the new run's folder; that run's configuration, and the team's folder."""
    from llm_decpomdp.algorithms.learning import distributed as processes

    processes.initialize()
    place = processes.broadcast(run.new_folder(config, name))
    output = replace(config.output, base_dir=str(place.parent), name=place.name)
    target = place / "initial_model"
    if processes.rank() == 0:
        env = before.make_env(before.dataset.train_split)
        team = teams.load(before, [env])
        kept_teams.restore(team, checkpoint)
        with writing(target):
            save_team(team, target, teams.agents_of(before, env.possible_agents))
    processes.broadcast(None)  # nobody goes on before it is saved
    return replace(config, output=output), target
