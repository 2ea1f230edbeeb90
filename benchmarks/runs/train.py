"""One training run, from a configuration to its folder; or what it would cost (`train --dry-run`)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_decpomdp.agents.saved_team import check_target, save_team
from llm_decpomdp.algorithms.training.trainer_options import PASSES
from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.errors import (
    FAILURES,
    ConfigError,
    RunError,
    format_message,
    open_folder,
)
from llm_decpomdp.benchmarks.config.load import start_cost
from llm_decpomdp.benchmarks.config.placement import check_interpreter, check_room
from llm_decpomdp.benchmarks.config.schema import Config, by_key
from llm_decpomdp.benchmarks.runs.build import TrainingParts, make_training
from llm_decpomdp.benchmarks.runs.manifest import manifest
from llm_decpomdp.benchmarks.runs.setup import (
    ResolvedRun,
    describe,
    first_prompts,
    resolve,
    skip_long_prompts,
)
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.policy import PromptTooLong, Team
from llm_decpomdp.utils.storage import RunFolder, read_json_lines, write_atomically

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.training.checkpoint_manager import CheckpointManager
    from llm_decpomdp.algorithms.training.sft_data import Demonstration

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Result:
    """The end of a finished run."""

    config: Config
    folder: RunFolder
    summary: dict[str, Any]
    """The number of `updates`, and what `RunLog.summary` tells."""
    team: Path
    """The folder of the trained team, if the configuration wants it saved."""


def train(config: Config, name: str) -> Result:
    """Train a team in a new run folder.

    Args:
        config: The configuration, checked or not.
        name: Its name.

    Raises:
        ConfigError: If the folder holds another run, and as of `resolve`.
        RunError: If the data or the models cannot be loaded, a loss isn't finite, or the expert
            fails.
        Interrupted: On Ctrl-C, after a checkpoint was saved.
    """
    return start(resolve(config), name)


def start(run: ResolvedRun, name: str, origin: Mapping[str, str] | None = None) -> Result:
    """Start a resolved run in a new folder: load its team, write what it is, and train; errors as of `train`.

    Args:
        run: The run.
        name: The configuration's name.
        origin: The trained team that it begins with, if it does, for the manifest.
    """
    from llm_decpomdp.algorithms.learning import distributed as processes

    processes.initialize()
    first = processes.rank() == 0
    with ExitStack() as stack:
        if first:
            folder = stack.enter_context(open_folder(folder_path(run.config, name)))
            refuse_results(run.config, folder.path)
        path = processes.broadcast(folder.path if first else Path())
        check_machine(run)
        lessons = run.lessons()
        team = teams.load(run.config, (run.train_env, run.eval_env), run.team)
        describe(team)
        run = skip_long_prompts(run, team)
        shard(run.config, team)
        folder = folder if first else RunFolder(path)
        training = make_training(run, team, folder, lessons)
        if first:
            _clear(folder)
            write_atomically(folder.config, run.config.to_yaml())
            about = {
                **manifest(run, name),
                "left_out": run.skipped,
                "first_prompts": first_prompts(
                    run.train_env, team, run.problems[0] if run.pairs else run.batches[0][0]
                ),
                "from": origin,
                "base_models": training.checkpoints.base_models,
                "kl_reference": training.trainer.learner.references,
            }
            folder.write_manifest(about)
        return finish(run, training, folder)


def check_machine(run: ResolvedRun) -> None:
    """Check that this machine has the devices and programs of a run, before models are loaded.

    Raises:
        ConfigError: If one is missing.
    """
    teams.check_lengths(run.config, run.team.policies)
    teams.check_devices(run.config, run.team.policies)
    if teams.samples_elsewhere(run.config, run.team.policies):
        check_room(run.config, run.team.policies)
        check_interpreter(run.config)


def finish(run: ResolvedRun, training: TrainingParts, folder: RunFolder) -> Result:
    """Run the updates that are left, and save what the configuration wants.

    Raises:
        RunError: If a loss isn't finite, a policy, the expert, the sandbox or the disk fails, or the trained team
            cannot be saved.
        Interrupted: On Ctrl-C, after a checkpoint was saved.
    """
    from llm_decpomdp.algorithms.learning import distributed as processes

    config, trainer, saves = run.config, training.trainer, training.checkpoints
    try:
        with ExitStack() as stack:
            if config.output.trackers and processes.rank() == 0:
                from llm_decpomdp.benchmarks.config.trackers import tracking

                callbacks = tracking(config.output.trackers, folder, by_key(config))
                trainer.callbacks.extend(stack.enter_context(callbacks))
            trainer.train()
    except FAILURES as error:
        raise RunError(_add_remedy(error, saves.newest, folder.path)) from error
    except Exception as error:  # a mistake in code of the user's own
        if saves.newest:
            error.add_note(
                f"update {saves.newest} is saved; to continue from it: --resume {folder.path}"
            )
        raise
    if config.output.save_final_model and config.learner.shards > 1:
        from llm_decpomdp.agents.models.sharded import unshard_team

        unshard_team(trainer.team)
    if processes.rank() == 0 and config.output.save_final_model:
        with _explain_unsaved_team(run, saves, folder):
            _save_team(run, training, folder)
    summary = {"updates": trainer.learner.updates, **training.log.summary()}
    processes.shutdown()
    return Result(config, folder, summary, final_folder(config, folder.path))


def shard(config: Config, team: Team) -> None:
    """Cut the weights of a team that is to learn as the configuration says.

    Raises:
        RunError: If the run has more or fewer processes, or a model cannot be cut.
    """
    if config.learner.shards > 1:
        from llm_decpomdp.agents.models.sharded import shard_team

        try:
            shard_team(team, config.learner.shards)
        except ValueError as error:
            raise RunError(str(error)) from error


def _add_remedy(error: Exception, saved: int | None, path: Path) -> str:
    """Say why a run has ended, and how to go on."""
    text = format_message(error).removesuffix(".")
    if not saved:
        return text
    short = isinstance(error.__cause__, PromptTooLong)
    way = " --override model.on_long_prompt=skip" if short else ""
    return f"{text}. Update {saved} is saved; to go on from it: --resume {path}{way}"


@contextmanager
def _explain_unsaved_team(
    run: ResolvedRun, checkpoints: CheckpointManager, folder: RunFolder
) -> Iterator[None]:
    """Turn what keeps the trained team from being saved into a `RunError` that says how to save it later."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:  # of a full disk any of them
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


def _save_team(run: ResolvedRun, training: TrainingParts, folder: RunFolder) -> None:
    """Save the final team, or the best one if the configuration keeps it."""
    if run.config.output.keep_best:
        best = training.checkpoints.load_best()
        logger.info("the best team is that of update %d", best["update"])
    save_team(training.trainer.team, final_folder(run.config, folder.path), run.team.agents)


def new_folder(config: Config, name: str) -> Path:
    """Choose the folder of a new run.

    Raises:
        ConfigError: If another run is there already.
    """
    path = folder_path(config, name)
    refuse_results(config, path)
    return path


def folder_path(config: Config, name: str) -> Path:
    """Return the path of the folder of a new run."""
    folder = config.output.name or f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    return Path(config.output.base_dir) / folder


def refuse_results(config: Config, path: Path) -> None:
    """Refuse to replace the results of a run; one that ended before its first update has none.

    Raises:
        ConfigError: If there are results.
    """
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
    if not folder.manifest.is_file():
        return True
    folders = (folder.checkpoints, folder.path / "final_model")
    if any(path.is_dir() and any(path.iterdir()) for path in folders):
        return True
    return any(row["kind"] == "train" for row in read_json_lines(folder.metrics))


def _clear(folder: RunFolder) -> None:
    """Remove what is left of a run that ended before its first update."""
    if folder.config.exists():
        logger.info("the run in %s ended before its first update, and is replaced", folder.path)
    for path in (folder.metrics, folder.episodes):
        path.unlink(missing_ok=True)


def final_folder(config: Config, run: Path) -> Path:
    """Return the folder for the trained team of a run in the folder `run`."""
    return Path(config.output.save_path or run / "final_model")


def dry_run(config: Config, name: str) -> Iterator[str]:
    """Check a configuration, and say in lines what a run of it would cost; no model is loaded for that.

    Args:
        config: The configuration.
        name: Its name.

    Raises:
        ConfigError: If the folder holds another run, no policy can be trained, or this machine lacks a device;
            and as of `resolve`.
        RunError: If the data cannot be loaded.
    """
    run = resolve(config)
    config, specs = run.config, run.team.policies
    check_machine(run)
    folder = new_folder(config, name)
    updates = len(run.batches)
    starts = (1 + config.algorithm.rollout.refill) * sum(map(len, run.batches))
    training = start_cost(config).times(0 if run.pairs else starts)
    lessons = run.lessons()
    evaluations = run.trainer.evaluations(updates) + (lessons is not None)
    episodes = len(run.eval_starts) * evaluations
    players = [specs[policy] for policy in run.team.agents.values()]
    tokens = sum(spec.max_new_tokens for spec in players if spec.name)
    yield f"{config.algorithm.name}, {config.algorithm.rollout.plan}, on {config.env.id}: {run.team.models}"
    yield f"training: {f'{len(run.pairs):,} stored pairs' if run.pairs else _data(run.train_env)}"
    yield f"evaluations: {_data(run.eval_env)}"
    if lessons is not None:
        yield _lessons(run, lessons, tokens)
    yield (
        f"{updates:,} updates: {training.joint_samples:,} joint samples, {training.completions * tokens:,} "
        f"tokens; {episodes:,} episodes of evaluations, {episodes * config.horizon * tokens:,} tokens"
    )
    yield "Tokens are upper bounds: every completion as long as its limit, every episode to its horizon."
    yield f"run folder: {folder}"
    yield "Models were not loaded, and nothing was written."


def _lessons(run: ResolvedRun, lessons: Sequence[Demonstration], tokens: int) -> str:
    """Say what a warm start learns, or what it samples to learn from, with up to so many tokens of a turn."""
    options = run.config.warm_start
    if options.source != PASSES:
        return f"warm start: {len(lessons):,} lessons of {options.source}, {options.epochs} times"
    problems = len(run.sampled_problems)
    episodes = problems * options.samples * options.rounds
    return (
        f"warm start: {problems:,} problems, {options.samples} episodes of each in each of {options.rounds} "
        f"rounds: {episodes:,} episodes, {episodes * run.config.horizon * tokens:,} tokens; those that pass "
        f"are learned {options.epochs} times"
    )


def _data(env: DecPOMDPEnv) -> str:
    data = env.metadata["data"]
    stand_in = ", a stand-in" if data["stand_in"] else ""
    return f"{data['rows']} problems of {data['name']} {data['split']} ({data['source']}){stand_in}"
