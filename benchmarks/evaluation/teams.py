"""The teams that can be evaluated beside baselines: of a configuration, of a saved team, of a run."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.endpoint import Endpoint
from llm_decpomdp.agents.saved_team import MANIFEST, load_saved_team, read_manifest
from llm_decpomdp.agents.scripted import RandomText
from llm_decpomdp.algorithms.rollout import distinct_policies
from llm_decpomdp.benchmarks import teams
from llm_decpomdp.benchmarks.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.evaluation.baselines import Contestant, Setting
from llm_decpomdp.benchmarks.run import final_folder
from llm_decpomdp.benchmarks.schema import Config
from llm_decpomdp.benchmarks.splits import change_of_data, commit_of
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.naming import unknown
from llm_decpomdp.policy import Team, TrainablePolicy
from llm_decpomdp.storage import RunFolder

logger = logging.getLogger(__name__)

HOW_ASKED = ("key_variable", "max_parallel", "timeout", "max_retries")
"""Keys of a policy behind a server that change nothing of what it says: an evaluation goes on with others."""

CHECKPOINTS = ("final", "best", "last")
"""What of a run can be evaluated: its final team, its best evaluation's, or its newest checkpoint's."""


def of_config(setting: Setting) -> Contestant:
    """The team of a configuration, before any training.

    Raises:
        ConfigError: If the team does not fit the environment.
        RunError: If a model cannot be loaded.
    """
    env, config = setting.make_env(), setting.config
    return Contestant(env, teams.load(config, [env]), about=_declared(config))


def _declared(config: Config) -> dict[str, Any]:
    """What a configuration says of its team."""
    policies = {
        name: {key: value for key, value in (given or {}).items() if key not in HOW_ASKED}
        for name, given in config.policies.items()
    }
    return {"model": asdict(config.model), "team": config.team, "policies": policies}


def of_folder(folder: Path, checkpoint: str | None, setting: Setting) -> Contestant:
    """A saved team, or that of a run.

    Args:
        folder: The folder of a team, or of a run.
        checkpoint: Which team of a run, one of `CHECKPOINTS`; `None` for the first of them that is there.
        setting: What it plays; of a run, with the run's own configuration.

    Raises:
        ConfigError: If there is no such team, or it does not fit the environment.
        RunError: If a model cannot be loaded.
    """
    path = locate(folder, checkpoint, setting.config)
    return _saved(path, setting) if (path / MANIFEST).is_file() else _restored(path, setting)


def warn_of_other_data(folder: Path, env: DecPOMDPEnv) -> None:
    """Say so if the problems of a run's evaluations are played, and are not what they were then."""
    place, now = RunFolder(folder), env.tasks.describe()
    data = place.read_manifest().get("data", {}) if place.manifest.is_file() else {}
    before = data.get("eval", {})
    if any(before.get(key) != now[key] for key in ("name", "split")):
        return  # others were asked for
    change = change_of_data("eval", before, now)
    if change is not None:
        commit = commit_of(data, "eval")
        remedy = f": dataset.source={commit} takes what it was" if commit else ""
        logger.warning(
            "%s; what is measured cannot be compared with that of %s%s", change, folder, remedy
        )


def locate(folder: Path, checkpoint: str | None, config: Config) -> Path:
    """The folder of a saved team, or of a checkpoint.

    Args:
        folder: The folder of a team, or of a run.
        checkpoint: As in `of_folder`.
        config: Of a run, its configuration.

    Raises:
        ConfigError: If there is no such team.
    """
    if checkpoint is not None and checkpoint not in CHECKPOINTS:
        raise ConfigError(unknown("checkpoint", checkpoint, CHECKPOINTS))
    if (folder / MANIFEST).is_file():
        if checkpoint is not None:
            raise ConfigError(f"{folder} holds one team and no run: leave out --checkpoint")
        return folder
    if not (folder / "config.yaml").is_file():
        raise ConfigError(
            f"{folder} holds neither a team ({MANIFEST}) nor a run (config.yaml): name one of their folders"
        )
    return _of_run(folder, checkpoint, config)


def _of_run(folder: Path, checkpoint: str | None, config: Config) -> Path:
    from llm_decpomdp.algorithms import checkpoint as checkpoints

    final = final_folder(config, folder)
    found = {
        "final": final if (final / MANIFEST).is_file() else None,
        "best": checkpoints.best(folder / "checkpoints"),
        "last": checkpoints.latest(folder / "checkpoints"),
    }
    there = [name for name in CHECKPOINTS if found[name] is not None]
    if not there:
        raise ConfigError(
            f"{folder} has kept no team: train with output.save_final_model=true or output.checkpoint_every"
        )
    chosen = checkpoint or there[0]
    path = found[chosen]
    if path is None:
        raise ConfigError(f"{folder} has no {chosen} team: it has {', '.join(there)}")
    return path


def _saved(folder: Path, setting: Setting) -> Contestant:
    env, model = setting.make_env(), setting.config.model
    try:
        agents = read_manifest(folder)["agents"]
        if set(agents) != set(env.possible_agents):
            raise ConfigError(
                f"the team in {folder} plays {', '.join(agents)}, and {setting.env_id} has "
                f"{', '.join(env.possible_agents)}: play it in its own environment"
            )
        team = load_saved_team(folder, device=model.device, seed=setting.config.seed)
    except (OSError, ImportError, TypeError) as error:
        raise RunError(f"cannot load the team in {folder}: {error}") from error
    return Contestant(env, team, about=kept(folder))


def _restored(path: Path, setting: Setting) -> Contestant:
    """The team of a configuration with the weights of a checkpoint."""
    env = setting.make_env()
    team = teams.load(setting.config, [env])
    restore(team, path)
    return Contestant(env, team, about={**_declared(setting.config), "checkpoint": kept(path)})


def kept(folder: Path) -> Mapping[str, str]:
    """What tells the team in a folder from others, also from those that the folder held before.

    Weights are known by the names, the sizes and the times of their files, for reading them would take long.
    """
    found = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        status = path.stat()
        found.update(f"{path.relative_to(folder)}:{status.st_size}:{status.st_mtime_ns}\n".encode())
        if path.name == MANIFEST:
            found.update(path.read_bytes())
    return {"team": str(folder.resolve()), "files": found.hexdigest()}


def restore(team: Team, path: Path) -> None:
    """Give a team the weights of a checkpoint.

    Raises:
        ConfigError: If the checkpoint has other policies.
    """
    from llm_decpomdp.algorithms import checkpoint as checkpoints
    from llm_decpomdp.algorithms.learner import trainable_policies

    _, state = checkpoints.load(path)
    policies = trainable_policies(team)
    if set(policies) != set(state["policies"]):
        raise ConfigError(
            f"{path} has the policies {', '.join(state['policies'])}, and the configuration has "
            f"{', '.join(policies)}"
        )
    for name, policy in policies.items():
        policy.load_state_dict(state["policies"][name])


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
            from llm_decpomdp.agents.causal_lm import CausalLM

            if isinstance(policy, CausalLM):
                policy.sampling = replace(policy.sampling, temperature=0.0)
