"""One training run, from a configuration to its folder."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from llm_decpomdp.agents.saved_team import check_target, save_team
from llm_decpomdp.algorithms.training.callbacks import TrainerCallback
from llm_decpomdp.benchmarks.config.errors import (
    ConfigError,
    RunError,
    failures,
    format_message,
    open_folder,
    raise_run_errors,
)
from llm_decpomdp.benchmarks.config.schema import Config, by_key
from llm_decpomdp.benchmarks.config.teams import check_machine
from llm_decpomdp.benchmarks.runs.build import TrainingParts, load_team, make_training
from llm_decpomdp.benchmarks.runs.manifest import first_prompts, manifest
from llm_decpomdp.benchmarks.runs.setup import ResolvedRun, resolve
from llm_decpomdp.policy import PromptTooLong
from llm_decpomdp.utils.storage import RunFolder, read_json_lines, write_atomically

logger = logging.getLogger(__name__)


class Result(NamedTuple):
    """The end of a finished run."""

    config: Config
    folder: RunFolder
    summary: dict[str, Any]
    """The number of `updates`, and `RunLog.summary`."""
    team: Path
    """The folder of the trained team, if the configuration wants it saved."""


MakeCallback = Callable[[Config, RunFolder], TrainerCallback]
"""Builds a callback of a run, in the first of several processes."""


def train(config: Config, name: str, callbacks: Sequence[MakeCallback] = ()) -> Result:
    """Train a team in a new run folder.

    Args:
        config: The configuration, checked or not.
        name: Its name.
        callbacks: Further callbacks, which are called after those of the run.

    Raises:
        ConfigError: If the folder holds another run, and as `resolve`.
        RunError: If the data or the models cannot be loaded, a loss isn't finite, or the expert
            fails.
        Interrupted: On Ctrl-C, after a checkpoint was saved.
    """
    return start(resolve(config), name, callbacks=callbacks)


def start(
    run: ResolvedRun,
    name: str,
    origin: Mapping[str, str] | None = None,
    callbacks: Sequence[MakeCallback] = (),
) -> Result:
    """Train a resolved run in a new folder; raises the errors of `train`.

    Args:
        run: The run.
        name: The configuration's name.
        origin: The identity of the team that the run begins with, for the manifest.
        callbacks: As in `train`.
    """
    from llm_decpomdp.agents.inference.determinism import deterministic
    from llm_decpomdp.algorithms.learning import distributed as processes

    processes.initialize(run.config.learner.process_timeout)
    first = processes.rank() == 0
    with ExitStack() as stack:
        with raise_run_errors():
            if run.config.learner.deterministic:
                stack.enter_context(deterministic())
        # Locked before models are loaded, so that two runs of one folder do not both spend minutes.
        if first:
            folder = stack.enter_context(open_folder(_folder_path(run.config, name)))
            _refuse_results(run.config, folder.path)
        # Its name may hold the time, which differs between processes.
        path = processes.broadcast(folder.path if first else Path())
        check_machine(run.config, run.team.policies)
        demonstrations = run.demonstrations()
        run, team = load_team(run)
        folder = folder if first else RunFolder(path)
        training = make_training(run, team, folder, demonstrations)
        if first:
            # Nothing has replaced an earlier run so far: all that can fail early has succeeded.
            if folder.config.exists():
                logger.info("the run in %s ended before its first update, and is replaced", path)
            for rows in (folder.metrics, folder.episodes):
                rows.unlink(missing_ok=True)
            write_atomically(folder.config, run.config.to_yaml())
            first_starts = run.problems if run.pairs else run.batches[0]
            folder.write_manifest(
                {
                    **manifest(run, name),
                    "left_out": run.skipped,
                    "first_prompts": first_prompts(run.train_env, team, first_starts[0]),
                    "from": origin,
                    "base_models": training.checkpoints.base_models,
                    "kl_reference": training.trainer.learner.references,
                }
            )
        return complete_run(run, training, folder, callbacks)


def complete_run(
    run: ResolvedRun,
    training: TrainingParts,
    folder: RunFolder,
    callbacks: Sequence[MakeCallback] = (),
) -> Result:
    """Run the updates that are left, and save the team if the configuration wants it.

    Raises:
        RunError: If a loss isn't finite, a policy, the expert, the sandbox or the disk fails, or the trained team
            cannot be saved.
        Interrupted: On Ctrl-C, after a checkpoint was saved.
    """
    from llm_decpomdp.algorithms.learning import distributed as processes

    config, trainer, saves = run.config, training.trainer, training.checkpoints
    try:
        with ExitStack() as stack:
            if processes.rank() == 0:
                trainer.callbacks.extend(make(config, folder) for make in callbacks)
            if config.output.trackers and processes.rank() == 0:
                from llm_decpomdp.benchmarks.config.trackers import tracking

                feeds = tracking(config.output.trackers, folder, by_key(config))
                trainer.callbacks.extend(stack.enter_context(feeds))
            trainer.train()
    except failures() as error:
        text = format_message(error).removesuffix(".")
        if saves.newest:
            # Retrying alone would end at the same prompt.
            too_long = isinstance(error.__cause__, PromptTooLong)
            skip = " --override model.on_long_prompt=skip" if too_long else ""
            text += (
                f". Update {saves.newest} is saved; to go on from it: --resume {folder.path}{skip}"
            )
        raise RunError(text) from error
    except Exception as error:  # a mistake in code of the user's own, whose traceback is needed
        if saves.newest:
            error.add_note(
                f"update {saves.newest} is saved; to continue from it: --resume {folder.path}"
            )
        raise
    if config.output.save_final_model:
        if config.learner.shards > 1:
            from llm_decpomdp.agents.models.sharded import unshard_team

            unshard_team(trainer.team)  # all processes together
        if processes.rank() == 0:
            with _explain_unsaved_team(run, training, folder):
                if config.output.keep_best:
                    best = saves.load_best()
                    logger.info("the best team is that of update %d", best["update"])
                save_team(trainer.team, final_folder(config, folder.path), run.team.agents)
    summary = {"updates": trainer.learner.updates, **training.log.summary()}
    processes.shutdown()
    return Result(config, folder, summary, final_folder(config, folder.path))


@contextmanager
def _explain_unsaved_team(
    run: ResolvedRun, training: TrainingParts, folder: RunFolder
) -> Iterator[None]:
    """Turn a failure to save the trained team into a `RunError` that says how to save it later."""
    from safetensors import SafetensorError

    checkpoints = training.checkpoints
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:  # a full disk raises any of them
        # With `keep_best` the weights are those of the best team now, and not of the last update.
        if not run.config.output.keep_best and run.config.learner.shards == 1:
            with suppress(OSError):
                checkpoints.save()
        path = final_folder(run.config, folder.path)
        reason = f"all updates are done, but the trained team cannot be saved in {path}: {error}"
        if checkpoints.newest:
            remedy = f"Update {checkpoints.newest} is saved. Free some space, then: --resume {folder.path}"
        elif run.config.output.keep_best:
            remedy = (
                f"Its weights are in {folder.checkpoints}: eval --team {folder.path} takes them"
            )
        else:
            remedy = "No checkpoint of it is saved either: free some space, and train again"
        raise RunError(f"{reason}. {remedy}") from error


def new_folder(config: Config, name: str) -> Path:
    """Choose the folder of a new run; raise a `ConfigError` if another run is there already."""
    path = _folder_path(config, name)
    _refuse_results(config, path)
    return path


def _folder_path(config: Config, name: str) -> Path:
    folder = config.output.name or f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    return Path(config.output.base_dir) / folder


def _refuse_results(config: Config, path: Path) -> None:
    """Refuse to replace the results of a run; one that ended before its first update has none."""
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
