"""New runs that begin with the team of another: `llm-decpomdp train --from RUN`.

The configuration of the new run names the folders of the trained policies, so that it says by itself how it began.
Only weights and adapters are taken over: optimizers, schedules, counters and random streams start again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.models.pretrained import saved_adapter
from llm_decpomdp.agents.saved_team import MANIFEST, declaration, identify_team
from llm_decpomdp.algorithms.training.warm_start import WarmStartOptions
from llm_decpomdp.benchmarks.config.errors import ConfigError, open_folder, raise_run_errors
from llm_decpomdp.benchmarks.config.legacy import renamed
from llm_decpomdp.benchmarks.config.load import find_config, read_config
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.runs.checkpoints import locate, new_folder, save_checkpoint
from llm_decpomdp.benchmarks.runs.setup import load_stored_config, team_spec, validate
from llm_decpomdp.benchmarks.runs.train import MakeCallback, Result, train
from llm_decpomdp.utils.storage import RunFolder

WITHOUT_WARM_START = [
    f"warm_start.{field.name}={'null' if field.default is None else field.default}"
    for field in fields(WarmStartOptions)
]

FRESH = ("output.name=null", "output.save_path=null", *WITHOUT_WARM_START)
"""Overrides of another run's configuration: a new run keeps its results elsewhere, and repeats no warm start."""

DECIDED = ("name", "lora")
"""Keys of a model that the trained team decides."""


def settings(
    source: Path, config: str | None, overrides: Sequence[str], flags: Mapping[str, Any]
) -> tuple[Config, str]:
    """Read the configuration that the team of another run is to be trained with, and its name.

    Args:
        source: The folder of the run, or of a saved team.
        config: Name or path of a configuration; `None` takes that of the run.
        overrides: Items such as `algorithm.learning_rate=1e-6`.
        flags: Dotted keys and values that win over the overrides.

    Raises:
        ConfigError: If there is no configuration, a key or type is wrong, or an override names other models.
    """
    for item in overrides:
        section, *_, last = renamed(item.partition("=")[0]).split(".")
        if section in ("model", "policies") and last in DECIDED:
            raise ConfigError(
                f"{item!r}: the models and the shape of their adapters are those in {source}; leave it out"
            )
    if config is not None:
        path = find_config(config)
        return read_config(path, overrides, flags), path.stem
    if not source.is_dir():
        raise ConfigError(
            f"there is no folder {source}: --from takes that of a run or of a saved team"
        )
    path = source / "config.yaml"
    if not path.is_file():
        raise ConfigError(f"{source} holds no config.yaml: say how to train its team with --config")
    return read_config(path, [*FRESH, *overrides], flags), RunFolder(source).read_manifest()[
        "config"
    ]


def train_initial_team(
    source: Path, config: Config, name: str, callbacks: Sequence[MakeCallback] = ()
) -> Result:
    """Train the team that another run has left, in a new run folder; raises the errors of `locate` and `train`.

    Args:
        source: The folder of the run, or of a saved team.
        config: The configuration, as `settings` returns it.
        name: The configuration's name.
        callbacks: As in `train`.
    """
    file = source / "config.yaml"
    team = locate(source, None, read_config(file) if file.is_file() else config)
    if not (team / MANIFEST).is_file():
        config, team = _export_checkpoint(team, load_stored_config(file), config, name)
    edit = partial(_use_initial_team, team)
    return train(config, name, callbacks, edit=edit, origin=identify_team(team))


def _use_initial_team(team: Path, config: Config, agents: Sequence[str]) -> Config:
    """Return the configuration with the models of a saved team; its other policies stay."""
    with raise_run_errors():
        # With an absolute path, as the new configuration may be read from another folder.
        names, specs = declaration(team.resolve())
    if set(names) != set(agents):
        raise ConfigError(
            f"the team in {team} plays {', '.join(names)}, and {config.env.id} has {', '.join(agents)}"
        )
    # By name, so that the new configuration says without the old run how it began.
    policies, declared = dict(config.policies), team_spec(config, agents)
    for name, spec in declared.policies.items():
        sources = {names[agent] for agent in agents if declared.agents[agent] == name}
        if spec.kind != "model":
            continue
        if len(sources) > 1:
            raise ConfigError(
                f"agents that share the policy {name!r} have {', '.join(sorted(sources))} in {team}: give each "
                "its own, as in `team` there"
            )
        trained = specs[sources.pop()]
        if trained.kind == "model":
            policies[name] = {**(policies.get(name) or {}), "name": trained.name}
            # A saved adapter has its own shape, so none is made by the configuration.
            if saved_adapter(str(trained.name)) is not None:
                policies[name]["lora"] = None
    return replace(config, policies=policies)


def _export_checkpoint(
    checkpoint: Path, before: Config, config: Config, name: str
) -> tuple[Config, Path]:
    """Save the team of a checkpoint in the new run's folder; return the new configuration and its folder."""
    from llm_decpomdp.algorithms.learning import distributed as processes

    config = validate(config)  # before models are loaded
    processes.initialize(config.learner.process_timeout)
    # Its name may hold the time, which differs between processes.
    place = processes.broadcast(new_folder(config, name))
    output = replace(config.output, base_dir=str(place.parent), name=place.name)
    target = place / "initial_model"
    if processes.rank() == 0:
        with open_folder(place):
            save_checkpoint(checkpoint, before, target)
    processes.broadcast(None)  # the others wait until it is saved
    return replace(config, output=output), target
