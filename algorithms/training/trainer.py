"""The training loop: sample, learn, log, evaluate, and continue where a run was stopped."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NoReturn

import torch

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.learning.learner_options import check_credit
from llm_decpomdp.algorithms.rollouts.checks import Bounded, announce, check_starts, evaluation_cost
from llm_decpomdp.algorithms.rollouts.play import gather_weights, play_episodes, seed_streams
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, TextEnv, Timer
from llm_decpomdp.algorithms.rollouts.rollout_options import StorageOptions, TrainerOptions
from llm_decpomdp.algorithms.training import metrics
from llm_decpomdp.algorithms.training.callbacks import TrainerCallback, defer_signals, terminable
from llm_decpomdp.algorithms.training.rollout_source import (
    NumberedBatch,
    RolloutSource,
    UpdateRequest,
    chain_of_sources,
    gather_to_rank0,
    shard_starts,
)
from llm_decpomdp.options import names, refuse_changes
from llm_decpomdp.policy import Team

logger = logging.getLogger(__name__)

# Torch raises a plain RuntimeError with these words on a CPU and in cuBLAS.
OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")

# Callbacks that options need; the others need a `CheckpointManager`.
CALLBACKS = {"record_tokens": "RunLog", "eval_every": "PeriodicEvaluation"}

LESS_MEMORY = (
    "To need less, best first: lower group_size or train_batch_size; lower "
    "max_new_tokens; turn on gradient_checkpointing; train adapters (lora) in place of all weights, or "
    "share one model between the agents; take a smaller model"
)


class Trainer:
    """Trains a team in an environment: its learner learns from the rollouts of a source, update after update.

    All random streams are named by the update, so a resumed run equals one that never stopped: bit for bit on a
    CPU with as many threads, if every start names a seed or a task and every policy that samples has `seed`.
    Remote models may ignore seeds.

    With several processes, each learns from a shard of every batch and all step alike. The first process writes.

    Args:
        env: Any text environment with one team reward.
        team: A policy for each agent.
        learner: Learns from rollouts, as `Algorithm.make_learner` builds it for this team.
        source: The rollouts of each update.
        options: How to sample, evaluate and save.
        callbacks: Checkpoints, log, warm start, evaluations and trackers, called in this order.

    Raises:
        ValueError: If the options do not fit together, or not the environment, the team or the source.
    """

    def __init__(
        self,
        env: TextEnv,
        team: Team,
        learner: BaseLearner,
        source: RolloutSource,
        options: TrainerOptions,
        callbacks: Sequence[TrainerCallback] = (),
    ) -> None:
        check_credit(options, learner.options)
        if options.wraps_source and source.source is None:
            changed = ", ".join(
                f"{name}={value}" for name, value in options.wrapper_options.items()
            )
            raise ValueError(
                f"{changed} needs a wrapper of the source: give the trainer add_wrappers(source, env, team, "
                "learner, options), of llm_decpomdp.algorithms"
            )
        # A run that saves nothing, although its options say so, would be lost.
        effective = {name for callback in callbacks for name in callback.option_names}
        for name in (*names(StorageOptions), "eval_every"):
            if name not in effective:
                remedy = f"add a {CALLBACKS.get(name, 'CheckpointManager')}, "
                remedy += "or name it in `option_names` of your callback, or drop the option"
                refuse_changes(options, [name], "these callbacks", remedy)
        if isinstance(env, Bounded):
            learner.options.check_horizon(env.num_turns)
        self.env, self.team, self.learner = env, team, learner
        self.source, self.options = source, options
        # Sources come first: they may add metrics to the row of an update before the log writes it.
        self.callbacks = [*chain_of_sources(source), *callbacks]
        self.activity = "training"
        """What the run is doing, for the message if memory runs out."""
        self.num_sft_steps = 0
        """Complete steps of supervised learning before the first update."""
        self.is_complete = True
        """False while weights or rows are those of no complete update."""
        self.notify("on_init_end")

    def notify(self, event: str, *arguments: Any) -> None:
        """Call the method of this name of every callback."""
        for callback in self.callbacks:
            getattr(callback, event)(self, *arguments)

    def log(self, kind: str, row: Mapping[str, Any], rollouts: Sequence[Rollout] = ()) -> None:
        """Give a row of metrics to the callbacks; `kind` is `train`, `eval` or another kind of `metrics.jsonl`."""
        self.notify("on_log", {"update": self.learner.updates, "kind": kind, **row}, rollouts)

    def resume(self) -> int:
        """Continue from the newest complete checkpoint, and drop the rows written after it.

        The run folder is locked until `train` ends.

        Returns:
            The number of complete updates.

        Raises:
            FileNotFoundError: If there is no checkpoint.
            FolderInUse: If another process writes to the folder.
            ValueError: If it is of a run with another algorithm, team or options.
        """
        try:
            self.notify("on_resume")
        except BaseException:
            self.notify("on_train_end")  # unlocks the folder, as `train` will not be called
            raise
        return self.learner.updates

    def train(self) -> None:
        """Run the remaining updates.

        Raises:
            FileExistsError: If the folder holds a run that was not resumed.
            FolderInUse: If another process writes to the folder.
            FloatingPointError: If a loss or gradient isn't finite.
            Interrupted: On Ctrl-C, SIGTERM and SIGHUP. This and any other failure saves the last complete
                update first.
            OSError: If the disk has no room for checkpoints.
            OutOfMemory: If memory runs out; says what to change.
        """
        failure: BaseException | None = None
        try:
            with terminable():
                try:
                    try:
                        self._run_remaining()
                    finally:
                        self.source.close()
                except Exception as error:  # such as another process that was interrupted first
                    failure = error
                except KeyboardInterrupt as interrupt:
                    failure = interrupt
                if failure is not None:
                    self._fail(failure)
        finally:
            self.notify("on_train_end")

    def _run_remaining(self) -> None:
        if processes.rank() == 0 and self.source.is_sampled:
            announce(self.source.cost, self.options, self.options.group_size, self.total)
        self.notify("on_train_begin")
        while self.learner.updates < self.total:
            self.activity = f"update {self.learner.updates + 1}"
            self.notify("on_step_begin")
            self._run_update()
            self.notify("on_step_end")

    @property
    def total(self) -> int:
        """Number of all updates of the run."""
        return len(self.source.batches)

    @property
    def version(self) -> int:
        """Version of the weights: the number of complete updates and warm start steps. It never decreases."""
        return self.learner.updates + self.num_sft_steps

    def _run_update(self) -> None:
        update, timer, begin = self.learner.updates + 1, Timer(), time.perf_counter()
        source, size = self.source, self.options.rollout_batch_size
        batch = source.collect(UpdateRequest(update, source.batches[update - 1], size), timer)
        batch.gather(size)
        sampled = processes.compute_on_first(
            lambda: {
                **metrics.reward_metrics(batch.rollouts),
                **source.metrics(batch),
                "tokens": metrics.count_tokens(batch.rollouts),
            }
        )
        with ExitStack() as stack:
            # With several steps a batch, `accumulate` takes all but the last, so weights change from here on.
            several = self.learner.options.num_iterations > 1
            if several:
                stack.enter_context(self.updating())
            with timer("learning"):
                learned = self.learner.accumulate(source.training_view(batch.train_rollouts))
            # Batches of later updates are completed with the weights that have begun them.
            source.finish()
            if not several:
                stack.enter_context(self.updating())
            with timer("learning"):
                self.learner.step()
            row = {
                **sampled,
                "tokens_per_second": sampled["tokens"] / (time.perf_counter() - begin),
                **{f"{activity}_seconds": seconds for activity, seconds in timer.seconds.items()},
                **learned,
            }
            self.notify("on_optimizer_step", batch, row)
            self.log("train", row, batch.rollouts)

    @contextmanager
    def updating(self) -> Iterator[None]:
        """Change weights and rows in this context; signals wait until its end."""
        with defer_signals():
            # After a failure in here the flag stays, so that half an update is never saved.
            self.is_complete = False
            yield
            self.notify("on_update_end")
            self.is_complete = True

    def _fail(self, failure: BaseException) -> NoReturn:
        """Let callbacks save what is complete, and raise what ended the run."""
        interrupted = isinstance(failure, KeyboardInterrupt)
        try:
            # A second Ctrl-C must not stop saving.
            with suppress(KeyboardInterrupt), defer_signals():
                self.notify("on_exception", failure)
        except Exception as error:
            if interrupted:
                raise
            # The first failure is the one that the user can act on.
            logger.error("nothing more is saved: %s", error)
        if memory_ran_out(failure):
            # Only the first line: torch appends a stack trace.
            first = next(iter(str(failure).splitlines()), "") or type(failure).__name__
            size, prompts = self.options.group_size, max(map(len, self.source.batches))
            raise OutOfMemory(
                f"memory ran out in {self.activity} or an evaluation, with group_size={size} and {prompts} "
                f"prompts per update ({first}). {LESS_MEMORY}"
            ) from failure
        raise failure


class OutOfMemory(MemoryError):
    """Memory ran out; the text says where and what to change."""


def memory_ran_out(error: BaseException) -> bool:
    """Check whether an error means that there was not enough memory, of the machine or of a GPU."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in OUT_OF_MEMORY)


class PeriodicEvaluation(TrainerCallback):
    """Plays an episode from each of some starts: before the first update, after the last, and every few updates.

    All evaluations sample with the same random numbers, so that two of them differ by the weights alone. Training
    does not depend on them.

    Args:
        env: The environment of evaluations.
        starts: One for each episode, in order; with none nothing is evaluated.
    """

    option_names = ("eval_every",)
    in_workers = False
    """Whether other processes share the episodes."""

    def __init__(self, env: TextEnv, starts: Sequence[Start]) -> None:
        self.env, self.starts = env, starts

    def on_init_end(self, trainer: Trainer) -> None:
        """Check that the starts fit the options and the team.

        Raises:
            ValueError: If the best policies are to be kept without evaluations, or a first prompt is too long.
        """
        options = trainer.options
        if options.keep_best and not self.starts:
            raise ValueError("keep_best compares evaluations, and there are no eval_starts")
        size = options.rollout_batch_size
        check_starts(self.env, trainer.team, self.starts, size, self.in_workers)
        batches = trainer.source.batches
        largest = size or -(-max(map(len, batches)) // processes.world_size())
        # As many completions at a time as in the largest update, so that both fit the same memory.
        self.at_a_time = options.group_size * largest
        self.size = None if size is None else self.at_a_time
        self.cost = evaluation_cost(self.env, len(self.starts) * options.evaluations(len(batches)))
        """Upper bound of the cost of all evaluations of the run; `None` where it isn't known."""

    def on_train_begin(self, trainer: Trainer) -> None:
        """Evaluate the team before training, or again after the update that the run continues from."""
        if processes.rank() == 0 and self.starts and self.cost:
            logger.info("evaluations: at most %s", self.cost)
        # A checkpoint is written before the evaluation of its update, whose rows resuming has dropped.
        self._evaluate_if_due(trainer)

    def on_step_end(self, trainer: Trainer) -> None:
        """Evaluate every few updates, and after the last."""
        if trainer.learner.updates:
            self._evaluate_if_due(trainer)

    def _evaluate_if_due(self, trainer: Trainer) -> None:
        if trainer.options.evaluates(trainer.learner.updates, trainer.total):
            self.evaluate(trainer)

    def evaluate(self, trainer: Trainer, kind: str = "eval") -> dict[str, Any]:
        """Play the episodes, log them, and return the metrics.

        Args:
            trainer: The trainer.
            kind: Kind of the row. Only `eval` stores episodes and can update the best checkpoint.
        """
        if not self.starts:
            return {}
        timer = Timer()
        batches = [batch for batch in shard_starts(self.starts, self.size) if batch[1]]
        episodes = gather_to_rank0(self._play(trainer, batches, timer), self.size)
        row: dict[str, Any] = processes.compute_on_first(
            lambda: {
                **metrics.evaluation_metrics(episodes),
                "tokens": metrics.count_tokens(episodes),
                **{f"{activity}_seconds": seconds for activity, seconds in timer.seconds.items()},
            }
        )
        # A signal between the row and the best policies would leave a row that no policies belong to.
        with defer_signals():
            trainer.log(kind, row, episodes if kind == "eval" else ())
            if kind == "eval":
                trainer.notify("on_evaluate", row)
        return row

    def _play(
        self, trainer: Trainer, batches: Sequence[NumberedBatch], timer: Timer
    ) -> list[list[Rollout]]:
        """Play the episodes of rollout batches."""
        team, episodes = trainer.team, []
        with gather_weights(team):
            for index, starts in batches:
                # No update in the names: evaluations differ by the weights alone.
                seed_streams(self.env, team, trainer.options.seed, "evaluation", index=index)
                size = self.at_a_time
                episodes.append(play_episodes(self.env, team, starts, size, timer))
        return episodes
