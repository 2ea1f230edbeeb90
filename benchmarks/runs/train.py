"""One training run, from a configuration to its folder."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from llm_decpomdp.algorithms import TrainerCallback
from llm_decpomdp.benchmarks.config.errors import (
    RunError,
    failures,
    format_message,
    open_folder,
    raise_run_errors,
)
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.config.teams import check_machine
from llm_decpomdp.benchmarks.runs.checkpoints import (
    final_folder,
    folder_path,
    refuse_results,
    save_final_team,
)
from llm_decpomdp.benchmarks.runs.data import skip_long_prompts
from llm_decpomdp.benchmarks.runs.manifest import write_new_run
from llm_decpomdp.benchmarks.runs.setup import EditConfig, ResolvedRun, load_policies, resolve
from llm_decpomdp.benchmarks.runs.warm_start import Demonstrations, load_demonstrations, make_phase
from llm_decpomdp.policy import PromptTooLong, Team
from llm_decpomdp.utils.storage import RunFolder

if TYPE_CHECKING:
    from llm_decpomdp.algorithms import CheckpointManager, RunLog, Trainer

logger = logging.getLogger(__name__)


class Result(NamedTuple):
    """The end of a finished run."""

    config: Config
    folder: RunFolder
    summary: dict[str, Any]
    """The number of `updates`, and `RunLog.summary`."""
    team: Path
    """The folder of the trained team, if the configuration wants it saved."""
    turn_based: bool
    """Whether agents may have to wait for others."""


class TrainingParts(NamedTuple):
    """The trainer of a run, and the two callbacks that hold its results."""

    trainer: Trainer
    checkpoints: CheckpointManager
    log: RunLog


MakeCallback = Callable[[Config, RunFolder], TrainerCallback]
"""Builds a callback of a run, in the first of several processes."""


def train(
    config: Config,
    name: str,
    callbacks: Sequence[MakeCallback] = (),
    *,
    edit: EditConfig | None = None,
    origin: Mapping[str, str] | None = None,
) -> Result:
    """Train a team in a new run folder.

    Args:
        config: The configuration, checked or not.
        name: Its name.
        callbacks: Further callbacks, which are called after those of the run.
        edit: As in `resolve`.
        origin: The identity of the team that the run begins with, for the manifest.

    Raises:
        ConfigError: If the folder holds another run, and as `resolve`.
        RunError: If the data or the models cannot be loaded, a loss isn't finite, or the expert
            fails.
        Interrupted: On Ctrl-C, after a checkpoint was saved.
    """
    from llm_decpomdp.agents.inference.determinism import deterministic
    from llm_decpomdp.algorithms.learning import distributed as processes

    run = resolve(config, edit=edit)
    processes.initialize(run.config.learner.process_timeout)
    first = processes.rank() == 0
    with ExitStack() as stack:
        with raise_run_errors():
            if run.config.learner.deterministic:
                stack.enter_context(deterministic())
        # Locked before models are loaded, so that two runs of one folder do not both spend minutes.
        if first:
            folder = stack.enter_context(open_folder(folder_path(run.config, name)))
            refuse_results(run.config, folder.path)
        # Its name may hold the time, which differs between processes.
        path = processes.broadcast(folder.path if first else Path())
        check_machine(run.config, run.team.policies)
        demonstrations = load_demonstrations(run) if run.config.warm_start.source else None
        hollow = run.config.learner.fsdp_size > 1
        team = load_policies(run.config, run.envs, run.team, hollow)
        run = skip_long_prompts(run, team)
        folder = folder if first else RunFolder(path)
        training = make_training(run, team, folder, demonstrations)
        if first:
            write_new_run(run, name, folder, training, origin)
        return run_training(run, training, folder, callbacks)


def make_training(
    run: ResolvedRun, team: Team, folder: RunFolder, demonstrations: Demonstrations
) -> TrainingParts:
    """Build the trainer of a run, and shard the weights of its team if the configuration says so.

    Args:
        run: The run.
        team: A policy for each agent.
        folder: The run folder.
        demonstrations: Those of `load_demonstrations`, none if the warm start is over.

    Raises:
        RunError: If the environment, the team and the configuration do not fit together, or the run has more or
            fewer processes than shards.
    """
    from llm_decpomdp.algorithms import (
        CheckpointManager,
        PeriodicEvaluation,
        RolloutSource,
        RunLog,
        SampledSource,
        Trainer,
    )

    config, env, options = run.config, run.train_env, run.trainer
    if options.mode == "chain" and config.env.discount < 1 and config.env.num_turns > 1:
        logger.warning(
            "env.discount=%s has no effect on learning in a chain, which credits each turn with its own "
            "reward; set algorithm.rollout.mode=tree for returns over turns",
            config.env.discount,
        )
    try:
        if config.learner.fsdp_size > 1:
            from llm_decpomdp.agents.models.sharded import shard_team

            sharding = config.learner
            shard_team(
                team, sharding.fsdp_size, sharding.reduce_once, sharding.gather_for_generation
            )
        phase = None
        if demonstrations is not None:
            phase = make_phase(run, team, demonstrations)
        learner = run.algorithm.make_learner(team, run.learner, config.seed)
        source: RolloutSource
        if run.has_plain_source:
            source = SampledSource(env, team, learner, options, run.batches)
            evaluation = PeriodicEvaluation(run.eval_env, run.eval_starts)
        else:
            from llm_decpomdp.benchmarks.runs.sources import make_sources

            source, evaluation = make_sources(run, team, learner)
        checkpoints, log = CheckpointManager(folder), RunLog(folder)
        # Checkpoints come first: the others continue from the state that these have loaded.
        callbacks = [checkpoints, log, *([phase] if phase else []), evaluation]
        trainer = Trainer(env, team, learner, source, options, callbacks)
    except (ValueError, TypeError) as error:
        raise RunError(str(error)) from error
    return TrainingParts(trainer, checkpoints, log)


def run_training(
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
                from llm_decpomdp.benchmarks.config.trackers import open_trackers

                trainer.callbacks.extend(stack.enter_context(open_trackers(config, folder)))
            trainer.train()
    except failures() as error:
        text = format_message(error).removesuffix(".")
        if saves.newest:
            # Retrying alone would end at the same prompt.
            too_long = isinstance(error.__cause__, PromptTooLong)
            skip = " --override model.on_long_prompt=skip" if too_long else ""
            remedy = f"to go on from it: --resume {folder.path}{skip}"
            # A resumed run keeps the options, and its loss would diverge again.
            if isinstance(error, FloatingPointError):
                remedy = f"to begin a new run with its team and other options: --from {folder.path}"
            text += f". Update {saves.newest} is saved; {remedy}"
        raise RunError(text) from error
    except Exception as error:  # a mistake in code of the user's own, whose traceback is needed
        if saves.newest:
            # `add_note` needs Python 3.11, as the learners do.
            error.add_note(
                f"update {saves.newest} is saved; to continue from it: --resume {folder.path}"
            )
        raise
    if config.output.save_final_model:
        save_final_team(run, trainer.team, saves, folder)
    summary = {"updates": trainer.learner.updates, **training.log.summary()}
    processes.shutdown()
    team = final_folder(config, folder.path)
    return Result(config, folder, summary, team, run.eval_env.turn_based)
