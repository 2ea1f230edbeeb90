"""One training run, from a configuration to its folder."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_decpomdp.agents.remote.endpoint import EndpointError
from llm_decpomdp.agents.saved_team import check_target, save_team
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError, writing
from llm_decpomdp.benchmarks.config.options import (
    learner_options,
    schedule,
    trainer_options,
)
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.config.trackers import require_packages
from llm_decpomdp.benchmarks.runs import long_prompts as prompts
from llm_decpomdp.benchmarks.runs.manifest import manifest
from llm_decpomdp.benchmarks.runs.splits import TwoSplits, commit_of, same_source
from llm_decpomdp.benchmarks.runs.trackers import tracking
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.modes.experts import ExpertError
from llm_decpomdp.envs.sandbox import SandboxError
from llm_decpomdp.policy import PromptTooLong, Team
from llm_decpomdp.tasks import Task, TaskSet
from llm_decpomdp.utils.storage import RunFolder, write_atomically

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.training.trainer import Trainer

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

    config: Config
    folder: RunFolder
    summary: dict[str, Any]
    """As `Trainer.train` returns it."""
    team: Path
    """The folder of the trained team, if the configuration wants it saved."""


def train(config: Config, name: str, origin: Mapping[str, str] | None = None) -> Result:
    """Train a team in a new run folder.

    Args:
        config: What to do.
        name: The configuration's name.
        origin: What its manifest says of the trained team that it begins with, if it does.

    Raises:
        ConfigError: If the folder holds another run, or no policy can be trained.
        RunError: If the data or the models cannot be loaded, a loss isn't finite, or the expert
            fails.
        Interrupted: On Ctrl-C, after a checkpoint was saved.
    """
    from llm_decpomdp.algorithms.learning import distributed as processes

    require_packages(config.output.trackers)
    processes.initialize()
    first = processes.rank() == 0
    train_env, eval_env = load_envs(config)
    teams.check_trainable(config, train_env.possible_agents)
    path = processes.broadcast(new_folder(config, name) if first else Path())
    team = teams.load(config, (train_env, eval_env))
    prompts.describe(team)
    skipped = left_out(config, train_env, eval_env, team)
    with writing(path):
        folder = RunFolder(path)
    trainer = make_trainer(config, train_env, eval_env, team, folder, skipped)
    if first:
        write_atomically(folder.config, config.to_yaml())
        about = {
            **manifest(config, name, train_env, eval_env),
            "left_out": skipped,
            "first_prompts": prompts.first_prompts(train_env, team, trainer.batches[0][0]),
            "from": origin,
        }
        folder.write_manifest(about)
    return finish(config, trainer, folder)


def finish(config: Config, trainer: Trainer, folder: RunFolder) -> Result:
    """Run the updates that are left, and save what the configuration wants.

    Raises:
        RunError: If a loss isn't finite, or a policy, the expert, the sandbox or the disk fails.
        Interrupted: On Ctrl-C, after a checkpoint was saved.
    """
    from llm_decpomdp.algorithms.learning import distributed as processes

    trackers = config.output.trackers if processes.rank() == 0 else {}
    try:
        with tracking(trackers, folder, asdict(config)) as listeners:
            summary = trainer.train(listeners)
    except FAILURES as error:
        raise RunError(_told(error, trainer.saved, folder.path)) from error
    if processes.rank() == 0 and config.output.save_final_model:
        _save_team(config, trainer, folder)
    processes.shutdown()
    return Result(config, folder, summary, final_folder(config, folder.path))


def _told(error: Exception, saved: int | None, path: Path) -> str:
    """What ended a run, and how to go on."""
    if not saved:
        return str(error)
    short = isinstance(error.__cause__, PromptTooLong)
    way = " --override model.on_long_prompt=skip" if short else ""
    text = str(error).removesuffix(".")
    return f"{text}. Update {saved} is saved; to go on from it: --resume {path}{way}"


def _save_team(config: Config, trainer: Trainer, folder: RunFolder) -> None:
    """Save the final team, or the best one if the configuration keeps it."""
    if config.output.keep_best:
        best = trainer.load_best()
        logger.info("the best team is that of update %d", best["update"])
    names = teams.agents_of(config, list(trainer.team))
    save_team(trainer.team, final_folder(config, folder.path), names)


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


def load_envs(
    config: Config, before: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[DecPOMDPEnv, DecPOMDPEnv]:
    """The environments of training and evaluation, with their data loaded from the same source.

    Args:
        config: The configuration.
        before: What the run's manifest says of its data, if there is a run: the hub's are those of its commit.

    Raises:
        RunError: If the data cannot be loaded.
    """
    try:
        train_env = config.make_train_env(commit_of(before, "train"))
        train = train_env.tasks
    except (ValueError, OSError) as error:
        raise RunError(f"cannot load {_named(config, 'train')}: {error}") from error
    try:
        eval_env = config.make_eval_env(commit_of(before, "eval") or same_source(config, train_env))
        held_out = eval_env.tasks
    except (ValueError, OSError) as error:
        raise RunError(f"cannot load {_named(config, 'eval')}: {error}") from error
    _check_ids(train, held_out)
    if both := len(train.positions.keys() & held_out.positions.keys()):
        logger.warning(
            "%d of the %d held-out tasks are trained on too, so that what is measured on them says little of "
            "others: let dataset.train_split=%s and dataset.eval_split=%s be slices that do not overlap, such as "
            "[20%%:] and [:20%%]",
            *(both, len(held_out), train.split, held_out.split),
        )
    return train_env, eval_env


def _check_ids(train: TaskSet, held_out: TaskSet) -> None:
    """Raise a `RunError` if an id means one problem in training and another in evaluation, as in two files."""
    for task_id in train.positions.keys() & held_out.positions.keys():
        one, other = (replace(tasks.find(task_id), index=0) for tasks in (train, held_out))
        if one != other:
            raise RunError(
                f"the task {task_id!r} of {train.source} is another problem than that of {held_out.source}: give "
                "every problem a task_id of its own"
            )


def _named(config: Config, part: str) -> str:
    """The data of a split in words, with its key."""
    split = getattr(config.dataset, f"{part}_split")
    return f"the data of {config.env.id} (dataset.{part}_split={split})"


def left_out(
    config: Config, train_env: DecPOMDPEnv, eval_env: DecPOMDPEnv, team: Team
) -> list[str]:
    """The training problems that are skipped because a first prompt is too long.

    Raises:
        RunError: If one is too long for a policy that skips none, or no problem is left.
    """
    env, tasks = TwoSplits(train_env, eval_env), train_env.tasks.tasks
    skipped = prompts.left_out(env, team, _most_text_first(tasks))
    batches = schedule(config, [task.task_id for task in tasks], skipped)
    played = {start.task_id for batch in batches for start in batch}
    held_out = _most_text_first(eval_env.tasks.tasks[: config.evaluation.num_tasks])
    prompts.refuse_long(env, team, _most_text_first(t for t in tasks if t.task_id in played))
    prompts.refuse_long(env, team, held_out)
    prompts.tell_unread(env, team, held_out)
    return skipped


def _most_text_first(tasks: Iterable[Task]) -> list[Start]:
    return [
        Start(task_id=task.task_id)
        for task in sorted(tasks, key=lambda t: len(repr(t)), reverse=True)
    ]


def eval_starts(config: Config, env: DecPOMDPEnv) -> list[Start]:
    """The held-out problems that are played in evaluations."""
    held_out = env.tasks.tasks[: config.evaluation.num_tasks]
    return [Start(task_id=task.task_id) for task in held_out]


def make_trainer(
    config: Config,
    train_env: DecPOMDPEnv,
    eval_env: DecPOMDPEnv,
    team: Team,
    folder: RunFolder,
    skipped: Sequence[str] = (),
) -> Trainer:
    """The trainer that a configuration describes; it plays all training problems but the `skipped` ones.

    Raises:
        RunError: If the environment, the team and the configuration do not fit together.
    """
    from llm_decpomdp.algorithms.training.trainer import Trainer

    tasks = [task.task_id for task in train_env.tasks.tasks]
    batches = schedule(config, tasks, skipped)
    if config.algorithm.plan == "chain" and config.env.discount < 1 and config.env.num_turns > 1:
        logger.warning(
            "env.discount=%s has no effect on learning in a chain, which credits each turn with its own "
            "reward; set algorithm.plan=tree for returns over turns",
            config.env.discount,
        )
    try:
        return Trainer(
            TwoSplits(train_env, eval_env),
            team,
            ALGORITHMS[config.algorithm.name],
            learner_options(config, len(batches), train_env.possible_agents),
            trainer_options(config),
            batches=batches,
            eval_starts=eval_starts(config, eval_env),
            folder=folder,
        )
    except ValueError as error:
        raise RunError(str(error)) from error
