"""The teams that runs have kept: their folders, their identity and their weights."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path

from llm_decpomdp.agents.saved_team import MANIFEST
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.runs.data import change_of_data, commit_of
from llm_decpomdp.benchmarks.runs.train import final_folder
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.policy import Team
from llm_decpomdp.utils.storage import RunFolder
from llm_decpomdp.validation import unknown

logger = logging.getLogger(__name__)

CHECKPOINTS = ("final", "best", "last")
"""Teams of a run that can be evaluated: its final one, its best evaluation's, its newest checkpoint's."""


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
    """Find the folder of a saved team, or of a checkpoint.

    Args:
        folder: The folder of a team, or of a run.
        checkpoint: Which team of a run, one of `CHECKPOINTS`; `None` for the first of them that is there.
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
    if not folder.exists():
        raise ConfigError(f"{folder} does not exist: name the folder of a team or of a run")
    if not (folder / "config.yaml").is_file():
        raise ConfigError(
            f"{folder} holds neither a team ({MANIFEST}) nor a run (config.yaml): name one of their folders"
        )
    return _of_run(folder, checkpoint, config)


def _of_run(folder: Path, checkpoint: str | None, config: Config) -> Path:
    from llm_decpomdp.algorithms.training import checkpoint as checkpoints

    final = final_folder(config, folder)
    paths = {
        "final": final if (final / MANIFEST).is_file() else None,
        "best": checkpoints.best(folder / "checkpoints"),
        "last": checkpoints.latest(folder / "checkpoints"),
    }
    names = [name for name in CHECKPOINTS if paths[name] is not None]
    if not names:
        raise ConfigError(
            f"{folder} has kept no team: train with output.save_final_model=true or output.checkpoint_every=1"
        )
    name = checkpoint or names[0]
    path = paths[name]
    if path is None:
        raise ConfigError(f"{folder} has no {name} team: it has {', '.join(names)}")
    return path


def kept(folder: Path) -> Mapping[str, str]:
    """Identify the team in a folder, among all others and among those that the folder held before.

    Weights are known by the names, the sizes and the times of their files, for reading them would take long.
    """
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        status = path.stat()
        digest.update(
            f"{path.relative_to(folder)}:{status.st_size}:{status.st_mtime_ns}\n".encode()
        )
        if path.name == MANIFEST:
            digest.update(path.read_bytes())
    return {"team": str(folder.resolve()), "files": digest.hexdigest()}


def restore(team: Team, path: Path) -> None:
    """Give a team the weights of a checkpoint.

    Raises:
        ConfigError: If the checkpoint has other policies.
    """
    from llm_decpomdp.algorithms.learning.base_learner import trainable_policies
    from llm_decpomdp.algorithms.training import checkpoint as checkpoints

    _, state = checkpoints.load(path)
    policies = trainable_policies(team)
    if set(policies) != set(state["policies"]):
        raise ConfigError(
            f"{path} has the policies {', '.join(state['policies'])}, and the configuration has "
            f"{', '.join(policies)}"
        )
    for name, policy in policies.items():
        policy.load_state_dict(state["policies"][name])
