"""One training run, from a configuration to its folder."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_decpomdp.agents.endpoint import EndpointError
from llm_decpomdp.agents.saved_team import check_target, save_team
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.rollout import Start
from llm_decpomdp.benchmarks import teams
from llm_decpomdp.benchmarks.config import load_config, load_stored_config
from llm_decpomdp.benchmarks.errors import ConfigError, RunError, writing
from llm_decpomdp.benchmarks.manifest import manifest
from llm_decpomdp.benchmarks.options import (
    learner_options,
    schedule,
    trainer_options,
)
from llm_decpomdp.benchmarks.schema import Config
from llm_decpomdp.benchmarks.splits import TwoSplits, same_source
from llm_decpomdp.benchmarks.trackers import require_packages, tracking
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.experts import ExpertError
from llm_decpomdp.envs.sandbox import SandboxError
from llm_decpomdp.policy import Team
from llm_decpomdp.storage import RunFolder, read_json_lines, write_atomically

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.trainer import Trainer

FAILURES = (
    FloatingPointError,
    MemoryError,
    ValueError,
    OSError,
    EndpointError,
    ExpertError,
    SandboxError,
)
"""What may end a run that has begun, and is told in one line."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Result:
    """What a finished run leaves."""

    folder: RunFolder
    summary: dict[str, Any]
    """As `Trainer.train` returns it."""
    report: Path | None
    """`None` where the configuration wants no report."""


def train(config: Config, name: str) -> Result:
    """Train a team in a new run folder.

    Args:
        config: What to do.
        name: The configuration's name.

    Raises:
        ConfigError: If the folder holds another run, or no policy can be trained.
        RunError: If the data or the models cannot be loaded, a loss isn't finite, or the expert
            fails.
        Interrupted: On Ctrl-C, after a checkpoint was saved.
    """
    from llm_decpomdp.algorithms import processes

    require_packages(config.output.trackers)
    processes.join()
    first = processes.rank() == 0
    train_env, eval_env = load_envs(config)
    teams.check_trainable(config, train_env.possible_agents)
    path = processes.of_first(new_folder(config, name) if first else Path())
    team = teams.load(config, (train_env, eval_env))
    with writing(path):
        folder = RunFolder(path)
    if first:
        write_atomically(folder.config, config.to_yaml())
        folder.write_manifest(manifest(config, name, train_env, eval_env))
    trainer = make_trainer(config, train_env, eval_env, team, folder)
    return _finish(config, trainer, folder)


def resume(path: Path) -> Result:
    """Continue an interrupted run from its newest checkpoint, as if it had not stopped.

    Raises:
        ConfigError: If `path` holds no run with a checkpoint or a finished one, or the data has changed.
        RunError: As `train`.
        Interrupted: As `train`.
    """
    from llm_decpomdp.algorithms import checkpoint, processes

    processes.join()
    if not (path / "config.yaml").is_file():
        raise ConfigError(f"{path} holds no run: there is no config.yaml in it")
    if checkpoint.latest(path / "checkpoints") is None:
        if _finished(RunFolder(path)):
            raise ConfigError(f"{path} is finished: there is no update left to continue with")
        raise ConfigError(f"{path} holds no checkpoint, so there is nothing to continue from")
    config, folder = load_config(path / "config.yaml"), RunFolder(path)
    require_packages(config.output.trackers)
    train_env, eval_env = load_envs(config)
    for split, env in (("train", train_env), ("eval", eval_env)):
        before, now = folder.read_manifest()["data"][split], env.metadata["data"]
        if before["fingerprint"] != now["fingerprint"]:
            raise ConfigError(f"{path} began with the {split} data {before}, but it is now {now}")
    team = teams.load(config, (train_env, eval_env))
    trainer = make_trainer(config, train_env, eval_env, team, folder)
    logger.info("continuing after update %d", trainer.resume())
    return _finish(config, trainer, folder)


def _finished(folder: RunFolder) -> bool:
    """Whether the rows of a run are those of all its updates."""
    done = [row["update"] for row in read_json_lines(folder.metrics) if row["kind"] == "train"]
    if not done or not folder.manifest.is_file():
        return False
    tasks = folder.read_manifest()["data"]["train"]["rows"]
    return bool(max(done) >= len(schedule(load_stored_config(folder.config), [""] * tasks)))


def _finish(config: Config, trainer: Trainer, folder: RunFolder) -> Result:
    from llm_decpomdp.algorithms import processes

    trackers = config.output.trackers if processes.rank() == 0 else {}
    try:
        with tracking(trackers, folder, asdict(config)) as listeners:
            summary = trainer.train(listeners)
    except FAILURES as error:
        saved = trainer.saved
        hint = (
            f" Update {saved} is saved; to go on from it: --resume {folder.path}" if saved else ""
        )
        raise RunError(f"{error}{hint}") from error
    report = None
    if processes.rank() == 0:
        report = _leave_results(config, trainer, folder)
    processes.leave()
    return Result(folder, summary, report)


def _leave_results(config: Config, trainer: Trainer, folder: RunFolder) -> Path | None:
    """Save the team and write the report, if they are wanted."""
    if config.output.save_final_model:
        if config.output.keep_best:
            best = trainer.load_best()
            logger.info("the best team is that of update %d", best["update"])
        names = teams.agents_of(config, list(trainer.team))
        save_team(trainer.team, final_folder(config, folder.path), names)
    if not config.output.report:
        return None
    from llm_decpomdp.benchmarks.report import write_report

    return write_report(folder)


def new_folder(config: Config, name: str) -> Path:
    """Where a new run goes.

    Raises:
        ConfigError: If another run is there already.
    """
    chosen = config.output.name or f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    path = Path(config.output.base_dir) / chosen
    if (path / "config.yaml").exists():
        raise ConfigError(
            f"{path} already holds a run: choose another output.name, or continue it with "
            f"--resume {path}"
        )
    if config.output.save_final_model:
        try:
            check_target(final_folder(config, path))
        except FileExistsError as error:
            raise ConfigError(f"output.save_path: {error}") from None
    return path


def final_folder(config: Config, run: Path) -> Path:
    """Where the trained team of a run in the folder `run` goes."""
    return Path(config.output.save_path or run / "final_model")


def load_envs(config: Config) -> tuple[DecPOMDPEnv, DecPOMDPEnv]:
    """The environments of training and evaluation, with their data loaded from the same source.

    Raises:
        RunError: If the data cannot be loaded.
    """
    try:
        train_env = config.make_env(config.dataset.train_split)
        eval_env = config.make_env(config.dataset.eval_split, same_source(train_env))
        both = set(train_env.tasks.positions) & set(eval_env.tasks.positions)
    except (ValueError, OSError) as error:
        raise RunError(f"cannot load the data of {config.env.id}: {error}") from error
    if both:
        logger.warning("%d tasks are in both the train split and the eval split", len(both))
    return train_env, eval_env


def make_trainer(
    config: Config, train_env: DecPOMDPEnv, eval_env: DecPOMDPEnv, team: Team, folder: RunFolder
) -> Trainer:
    """The trainer that a configuration describes."""
    from llm_decpomdp.algorithms.trainer import Trainer

    tasks = [task.task_id for task in train_env.tasks.tasks]
    held_out = eval_env.tasks.tasks[: config.evaluation.num_tasks]
    batches = schedule(config, tasks)
    if config.algorithm.plan == "chain" and config.env.discount < 1 and config.env.num_turns > 1:
        logger.warning(
            "env.discount=%s has no effect on learning in a chain, which credits each turn with its own "
            "reward; set algorithm.plan=tree for returns over turns",
            config.env.discount,
        )
    return Trainer(
        TwoSplits(train_env, eval_env),
        team,
        ALGORITHMS[config.algorithm.name],
        learner_options(config, len(batches), train_env.possible_agents),
        trainer_options(config),
        batches=batches,
        eval_starts=[Start(task_id=task.task_id) for task in held_out],
        folder=folder,
    )
