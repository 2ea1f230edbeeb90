"""The folders of runs and the teams that they have kept."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from llm_decpomdp.agents import save_team
from llm_decpomdp.agents.saved_team import MANIFEST, check_target
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError, writing
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.runs.setup import ResolvedRun, load_policies, team_spec
from llm_decpomdp.policy import Team
from llm_decpomdp.utils.storage import RunFolder, read_json_lines
from llm_decpomdp.validation import unknown

if TYPE_CHECKING:
    from llm_decpomdp.algorithms import CheckpointManager

logger = logging.getLogger(__name__)

CHECKPOINTS = ("final", "best", "last")
"""Teams of a run that can be evaluated: its final one, its best evaluation's, its newest checkpoint's."""


def new_folder(config: Config, name: str) -> Path:
    """Choose the folder of a new run; raise a `ConfigError` if another run is there already."""
    path = folder_path(config, name)
    refuse_results(config, path)
    return path


def folder_path(config: Config, name: str) -> Path:
    """Return the folder of a new run; without `output.name` its name holds the time."""
    folder = config.output.name or f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    return Path(config.output.base_dir) / folder


def refuse_results(config: Config, path: Path) -> None:
    """Raise a `ConfigError` for a folder with results; a run that ended before its first update has none."""
    if (path / "config.yaml").exists() and has_results(RunFolder(path)):
        raise ConfigError(
            f"{path} already holds a run: choose another output.name, or continue it with "
            f"--resume {path}"
        )
    if config.output.save_final_model and final_folder(config, path).exists():
        try:
            check_target(final_folder(config, path))
        except FileExistsError as error:
            raise ConfigError(f"output.save_path: {error}") from None


def has_results(folder: RunFolder) -> bool:
    """Check whether a run has made an update, kept a checkpoint or saved a team; assume so without a manifest."""
    if not folder.manifest.is_file():  # a damaged run may still be repaired
        return True
    folders = (folder.checkpoints, folder.path / "final_model")
    if any(path.is_dir() and any(path.iterdir()) for path in folders):
        return True
    return any(row["kind"] == "train" for row in read_json_lines(folder.metrics))


def final_folder(config: Config, run: Path) -> Path:
    """Return the folder for the trained team of a run in the folder `run`."""
    return Path(config.output.save_path or run / "final_model")


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
    return _find_in_run(folder, checkpoint, config)


def _find_in_run(folder: Path, checkpoint: str | None, config: Config) -> Path:
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


def restore(team: Team, path: Path) -> None:
    """Give a team the weights of a checkpoint; raise a `ConfigError` if it has other policies."""
    from llm_decpomdp.algorithms.training import checkpoint as checkpoints

    try:
        checkpoints.restore_policies(team, path)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def save_checkpoint(checkpoint: Path, config: Config, folder: Path) -> None:
    """Save the team of a checkpoint as `save_team` does, with the configuration of its run.

    Raises:
        ConfigError: If the checkpoint does not fit the configuration.
        RunError: If the folder cannot be written.
    """
    env = config.make_env(config.dataset.train_split)
    spec = team_spec(config, env.possible_agents)
    team = load_policies(config, [env], spec)
    restore(team, checkpoint)
    with writing(folder):
        save_team(team, folder, spec.agents)


def save_final_team(
    run: ResolvedRun, team: Team, checkpoints: CheckpointManager, folder: RunFolder
) -> None:
    """Save the trained team of a finished run, by all of its processes together.

    Raises:
        RunError: If it cannot be saved; says how to save it later.
    """
    from llm_decpomdp.algorithms.learning import distributed as processes

    if run.config.learner.fsdp_size > 1:
        from llm_decpomdp.agents.models.sharded import unshard_team

        unshard_team(team)  # which takes all processes; the first one saves
    if processes.rank() == 0:
        with _explain_unsaved_team(run.config, checkpoints, folder):
            if run.config.output.keep_best:
                best = checkpoints.load_best()
                logger.info("the best team is that of update %d", best["update"])
            save_team(team, final_folder(run.config, folder.path), run.team.agents)


@contextmanager
def _explain_unsaved_team(
    config: Config, checkpoints: CheckpointManager, folder: RunFolder
) -> Iterator[None]:
    """Turn a failure to save the trained team into a `RunError` that says how to save it later."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:  # a full disk raises any of them
        # With `keep_best` the weights are those of the best team now, and not of the last update.
        if not config.output.keep_best and config.learner.fsdp_size == 1:
            with suppress(OSError):  # the disk may be too full for this, too
                checkpoints.save()
        path = final_folder(config, folder.path)
        reason = f"all updates are done, but the trained team cannot be saved in {path}: {error}"
        if checkpoints.newest:
            remedy = f"Update {checkpoints.newest} is saved. Free some space, then: --resume {folder.path}"
        elif config.output.keep_best:
            remedy = (
                f"Its weights are in {folder.checkpoints}: eval --team {folder.path} takes them"
            )
        else:
            remedy = "No checkpoint of it is saved either: free some space, and train again"
        raise RunError(f"{reason}. {remedy}") from error
