"""The training loop: sample, update, evaluate, write down, and continue where a run was stopped."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.algorithm import Algorithm
from llm_decpomdp.algorithms.learning.base_learner import trainable_policies
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rewards.refitting import RewardModelUpdater
from llm_decpomdp.algorithms.rewards.scorer import load_scorer
from llm_decpomdp.algorithms.rollout_workers.rollout_worker import (
    LocalRolloutWorker,
    RolloutWorker,
    WeightSync,
    WorkerState,
)
from llm_decpomdp.algorithms.rollouts.cost import announce, run_cost
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.sampling import Timer, distinct_policies
from llm_decpomdp.algorithms.training import metrics
from llm_decpomdp.algorithms.training.async_rollouts import Lagged
from llm_decpomdp.algorithms.training.base_models import BaseModels
from llm_decpomdp.algorithms.training.checkpoint_manager import CheckpointManager
from llm_decpomdp.algorithms.training.checks import check_training
from llm_decpomdp.algorithms.training.curriculum import Curriculum
from llm_decpomdp.algorithms.training.evaluation import Evaluation
from llm_decpomdp.algorithms.training.expert_iteration import ExpertIteration
from llm_decpomdp.algorithms.training.interruption import Interrupted, terminable, uninterrupted
from llm_decpomdp.algorithms.training.metrics import UNTRAINED
from llm_decpomdp.algorithms.training.opponents import Comparator
from llm_decpomdp.algorithms.training.resources import memory_ran_out, out_of_memory
from llm_decpomdp.algorithms.training.rollout_source import Played, Source, Stored
from llm_decpomdp.algorithms.training.run_log import Listener, RunLog
from llm_decpomdp.algorithms.training.sft import SupervisedTraining
from llm_decpomdp.algorithms.training.trainer_options import TrainerOptions
from llm_decpomdp.policy import Team
from llm_decpomdp.utils.storage import RunFolder

logger = logging.getLogger(__name__)


class Trainer:
    """Trains a team in an environment, and keeps the run in a folder.

    Everything random is drawn from streams that are named by the update, so a run that is resumed equals one that
    never stopped, bit for bit on a CPU with as many threads, if every start names a seed or a task and every
    policy that samples has `seed`; remote models answer as they like.

    Several processes (`processes`) each work on a share of every update's starts and step alike; the first writes.
    Policies whose weights lie in shards (`agents.models.sharded`) are those of all processes together.

    Args:
        env: Any text environment with one team reward, to train in.
        team: A policy for each agent.
        algorithm: Which algorithm learns.
        learner_options: How the policies step.
        trainer_options: How to sample, evaluate and save.
        batches: Starts of the rollouts of each update, one batch for each update, in order.
        eval_starts: Starts of the episodes of an evaluation; empty for no evaluations.
        folder: The run folder.
        progress: Whether to show a progress bar on stderr; `None` shows it on a terminal.
        eval_env: Where evaluations are played; by default in `env`.
        warm_start: Supervised learning before the first update.
        problems: Starts that `refill` and `curriculum` draw from; by default those of `batches`.
        stored: Rollouts of each update, one for each start of `batches`, to learn from instead of playing any.
        comparator: The team that `comparator` of the learner's options names.
        rollout_worker: Samples updates and evaluations, with `starts_per_bundle`; by default this process does. It
            is closed after the last update.

    Raises:
        ValueError: If there is no batch or an empty one, the options do not fit the environment or
            team, the rollouts would be absurdly large, or a first prompt is too long for its policy.
    """

    def __init__(
        self,
        env: TextEnv,
        team: Team,
        algorithm: Algorithm,
        learner_options: LearnerOptions,
        trainer_options: TrainerOptions,
        batches: Sequence[Sequence[Start]],
        eval_starts: Sequence[Start],
        folder: RunFolder,
        progress: bool | None = None,
        eval_env: TextEnv | None = None,
        warm_start: SupervisedTraining | ExpertIteration | None = None,
        problems: Sequence[Start] = (),
        stored: Sequence[Sequence[Rollout]] = (),
        comparator: Team | None = None,
        rollout_worker: RolloutWorker | None = None,
    ) -> None:
        learner_options = algorithm.complete_options(learner_options)
        problems = list(problems or dict.fromkeys(chain.from_iterable(batches)))
        self.env = env
        self.eval_env = env if eval_env is None else eval_env
        check_training(
            *(env, self.eval_env, team, algorithm, learner_options, trainer_options),
            batches=batches,
            eval_starts=eval_starts,
            problems=problems,
            stored=bool(stored),
            comparator=comparator,
            rollout_worker=rollout_worker,
            warm=warm_start is not None,
        )
        evaluations = trainer_options.evaluations(len(batches)) + (warm_start is not None)
        episodes = evaluations * len(eval_starts)
        self.cost = run_cost(
            *(env, self.eval_env, trainer_options, trainer_options.group_size, batches, episodes),
            comparator=comparator is not None,
        )
        """Upper bound of the run's cost; `None` where the environment does not tell its horizon."""
        self.team = team
        path = trainer_options.reward_model
        judge = load_scorer(Path(path), team, env.possible_agents) if path else None
        every, seed = trainer_options.reward_model_every, trainer_options.seed
        self._refitting = RewardModelUpdater(judge, every, seed) if judge and every else None
        self.options = trainer_options
        self.batches = batches
        self.eval_starts = eval_starts
        self.folder = folder
        self._lock = ExitStack()
        for policy in trainable_policies(team).values():
            processes.broadcast_parameters(policy.parameters())
        self.learner = algorithm.make_learner(team, learner_options, trainer_options.seed)
        rival = Comparator(env, comparator, team, trainer_options) if comparator else None
        state = WorkerState(env, self.eval_env, team)
        self._rollout_worker = WeightSync(
            rollout_worker or LocalRolloutWorker(state), self.learner.policies, self._version
        )
        size, seed = trainer_options.group_size, trainer_options.seed
        curriculum = Curriculum(problems, size, seed) if trainer_options.curriculum else None
        played = Played(
            *(self._rollout_worker, trainer_options, batches, problems, self.learner, judge, rival),
            curriculum=curriculum,
        )
        one_step = learner_options.updates_per_batch == 1 and not self.learner.is_sharded
        ahead = rollout_worker is not None and one_step
        lag = trainer_options.lag
        lagged = Lagged(played, lag, len(batches), ahead) if lag else None
        self._source: Source = Stored(stored) if stored else lagged or played
        self._evaluation = Evaluation(self._rollout_worker, trainer_options, batches, eval_starts)
        self._policies = distinct_policies(team)
        self._log = RunLog(folder, len(batches), progress, trainer_options.record_tokens)
        self.warm_start = warm_start
        self._saver = CheckpointManager(
            folder.checkpoints,
            self.learner,
            trainer_options,
            self._policies,
            warm_start,
            judge.model if judge else None,
            self._refitting,
            lagged,
            curriculum,
        )

    def resume(self) -> int:
        """Continue from the folder's newest complete checkpoint, and drop the rows written after it.

        The folder is locked until `run_updates` ends.

        Returns:
            The number of complete updates.

        Raises:
            FileNotFoundError: If there is no checkpoint.
            FolderInUse: If another process writes to the folder.
            ValueError: If it is of a run with another algorithm, team or options.
        """
        self._lock_folder()
        try:
            update = self._saver.resume()
            self._log.rewind(update, self.warm_start.steps if self.warm_start else 0)
            self._rollout_worker.reload()
        except BaseException:
            self._lock.close()
            raise
        return update

    def _lock_folder(self) -> None:
        """Keep other processes from writing to the run folder, until `_lock` is closed."""
        if processes.rank() == 0:
            self._lock.enter_context(self.folder.exclusive_access())

    @property
    def base_models(self) -> BaseModels:
        """The frozen models that policies rely on, by policy."""
        return self._saver.base_models

    @property
    def saved(self) -> int | None:
        """The newest update with a checkpoint, if any."""
        return self._saver.newest

    def run_updates(self, listeners: Sequence[Listener] = ()) -> dict[str, Any]:
        """Run the remaining updates.

        Args:
            listeners: Each is given the rows of `metrics.jsonl` as they are written, in the first process.

        Returns:
            `updates`, and the first and last rows of `metrics.jsonl` by kind: `first_train`,
            `last_train`, `first_eval`, `last_eval` (`None` where there is none). And reasons to doubt the
            learning, over all updates: `groups`, `groups_without_signal`, `silent_updates` (without any
            other) and `cut_off`, the share of completions at the token limit.

        Raises:
            FileExistsError: If the folder holds a run that was not resumed.
            FolderInUse: If another process writes to the folder.
            FloatingPointError: If a loss or gradient isn't finite.
            Interrupted: On Ctrl-C, SIGTERM and SIGHUP. This and any other failure saves the last complete
                update first.
            OSError: If the disk has no room for checkpoints.
            OutOfMemory: If memory runs out; says what to change.
        """
        with self._lock:
            self._lock_folder()
            return self._run_updates(listeners)

    def _run_updates(self, listeners: Sequence[Listener]) -> dict[str, Any]:
        if self.saved is None:
            if self._log.begun:
                raise FileExistsError(
                    f"{self.folder.path} already holds a run: resume it or choose another folder"
                )
            self._saver.require_room()
        self._log.listeners = listeners
        if processes.rank() == 0 and not isinstance(self._source, Stored):
            announce(self.cost, self.options, self.options.group_size, len(self.batches))
            if isinstance(self.warm_start, ExpertIteration) and not self.warm_start.steps:
                self.warm_start.announce()
        failure: BaseException | None = None
        with terminable():
            try:
                try:
                    with closing(self._rollout_worker), self._log.bar:
                        self._run_remaining()
                except Exception as error:  # such as another process that was interrupted first
                    failure = error
            except KeyboardInterrupt as interrupt:
                failure = interrupt
            if failure is not None:
                self._leave(failure)
        return {"updates": self.learner.updates, **self._log.summary()}

    def _leave(self, failure: BaseException) -> NoReturn:
        """Save what is complete, and raise what ended the run."""
        interrupted = isinstance(failure, KeyboardInterrupt)
        try:
            with suppress(KeyboardInterrupt), uninterrupted():  # once is enough
                if self.learner.is_sharded:
                    logger.error(
                        "weights in shards are not saved on the way out, as that takes all processes at the same "
                        "time: the newest checkpoint is that of update %s",
                        self.saved,
                    )
                elif interrupted or self.learner.updates:
                    self.save()
        except Exception as error:  # the first failure is the one to tell
            if interrupted:
                raise
            logger.error("nothing more is saved: %s", error)
        if interrupted:
            saved = self.saved if self.learner.is_sharded else self.learner.updates
            if saved is None:
                raise failure
            raise Interrupted(self.folder.path, saved, len(self.batches)) from failure
        if memory_ran_out(failure):
            prompts = max(map(len, self.batches))
            warming = self.warm_start is not None and not self.warm_start.done
            update = f"update {self.learner.updates + 1}"
            activity = f"{'the warm start' if warming else update} or an evaluation"
            raise out_of_memory(failure, activity, self.options.group_size, prompts) from failure
        raise failure

    def _run_remaining(self) -> None:
        options, total = self.options, len(self.batches)
        if self.warm_start is not None and not self.learner.updates:
            self._learn_lessons(self.warm_start)
        while True:
            update = self.learner.updates
            if options.evaluates(update, total):
                self.evaluate()
            if update >= total:
                return
            self._train_update()
            self._saver.save_if_due(total)

    def _learn_lessons(self, warm_start: SupervisedTraining | ExpertIteration) -> None:
        """Take the remaining steps of a warm start, after an evaluation of the untrained team."""
        if not warm_start.steps:
            self.evaluate(UNTRAINED)
        while not warm_start.done:
            timer = Timer()
            warm_start.prepare(timer)
            with timer("learning"):
                row = warm_start.accumulate()
            with self._saver.changing():
                warm_start.step()
                row |= {
                    f"{activity}_seconds": seconds for activity, seconds in timer.seconds.items()
                }
                self._log.write_lesson(row, warm_start.total)
            self._saver.save_if_due(len(self.batches))
        self.learner.reload_master_weights()
        if self.options.checkpoint_every:
            self.save()

    def _train_update(self) -> None:
        update, timer, begin = self.learner.updates + 1, Timer(), time.perf_counter()
        batch = self._source.batch(update, timer)
        played = processes.compute_on_first(
            lambda: {
                **metrics.reward_metrics(batch.rollouts),
                **batch.metrics,
                "tokens": metrics.count_tokens(batch.rollouts),
            }
        )
        with ExitStack() as stack:
            several = self.learner.options.updates_per_batch > 1
            if several:  # the first steps are taken while accumulating
                stack.enter_context(self._saver.changing())
            with timer("learning"):
                learned = self.learner.accumulate(batch.lessons)
            self._source.complete()
            if not several:
                stack.enter_context(self._saver.changing())
            with timer("learning"):
                self.learner.step()
            row = {
                **played,
                "tokens_per_second": played["tokens"] / (time.perf_counter() - begin),
                **{f"{activity}_seconds": seconds for activity, seconds in timer.seconds.items()},
                **learned,
            }
            if self._refitting:
                row |= self._refitting.observe(update, batch.rollouts)
            self._log.write(update, "train", row, batch.rollouts)

    def evaluate(self, kind: str = "eval") -> dict[str, Any]:
        """Play one episode from each evaluation start, write it down, and return the metrics.

        Of any other kind than `eval` no episodes are kept, and the team is none of the best. All sample with the
        same random numbers, so that two differ by the weights alone; no training changes.
        """
        if not self.eval_starts:
            return {}
        episodes, row = self._evaluation.play()
        with uninterrupted():
            self._log.write(self.learner.updates, kind, row, episodes if kind == "eval" else ())
            if self.options.keep_best and kind == "eval":
                self._saver.save_best(row["reward_mean"])
        return row

    def _version(self) -> int:
        """Return what tells the weights of one time from those of another."""
        return self.learner.updates + (self.warm_start.steps if self.warm_start else 0)

    def save(self) -> None:
        """Write a checkpoint of the last complete update, unless there is one.

        Raises:
            OSError: If the disk has no room for it.
            RuntimeError: If an update failed half way.
        """
        self._saver.save()

    def load_best(self) -> dict[str, Any]:
        """Give the policies the weights of the best evaluation; training does not go on from them.

        Returns:
            `update` and `reward_mean` of that evaluation.

        Raises:
            FileNotFoundError: If none was kept; the option `keep_best` does.
        """
        self._rollout_worker.reload()
        return self._saver.load_best()
