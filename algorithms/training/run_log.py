"""The log of a run: its rows, written, dropped again and summed up; its progress bar, and its warnings."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.algorithms.training.callbacks import TrainerCallback
from llm_decpomdp.algorithms.training.metrics import (
    BEFORE,
    WARNING_UPDATES,
    cut_off,
    episode_row,
    find_warnings,
    lacks_signal,
)
from llm_decpomdp.algorithms.training.trainer import Trainer
from llm_decpomdp.utils.storage import RunFolder, append_json_line, keep_json_lines, read_json_lines
from llm_decpomdp.utils.text import duration

logger = logging.getLogger(__name__)

Row = Mapping[str, Any]
"""A row of `metrics.jsonl`."""

RECENT = 50
"""Number of the newest updates, and of the newest evaluations, whose durations give the remaining time."""


class RunLog(TrainerCallback):
    """Writes `metrics.jsonl` and `episodes.jsonl`, in the first of several processes alone.

    Args:
        folder: The run folder.
        progress: Whether to show a progress bar on stderr; `None` shows it on a terminal.
    """

    option_names = ("record_tokens",)

    def __init__(self, folder: RunFolder, progress: bool | None = None) -> None:
        self.folder = folder
        self._lock = ExitStack()
        self._bar = _progress_bar(progress if processes.rank() == 0 else False)
        self._monitor = WarningMonitor()
        self._begin = 0.0  # of the update or the evaluation that is next in the log
        self._seconds = {kind: deque[float](maxlen=RECENT) for kind in ("train", "eval")}
        self._resumed = False

    def on_init_end(self, trainer: Trainer) -> None:
        """Set the length of the progress bar."""
        self._task = self._bar.add_task("training", total=trainer.total, note="")

    def on_train_begin(self, trainer: Trainer) -> None:
        """Lock the folder, and show the progress bar.

        Raises:
            FileExistsError: If the folder holds a run that was not resumed.
            FolderInUse: If another process writes to the folder.
        """
        if processes.rank() == 0:
            self._lock.enter_context(self.folder.exclusive_access())
        # The first process decides for all, so that none waits for others that have ended.
        if not self._resumed and processes.broadcast(self.folder.metrics.exists()):
            raise FileExistsError(
                f"{self.folder.path} already holds a run: resume it or choose another folder"
            )
        self._bar.start()
        self._begin = time.perf_counter()

    def on_step_begin(self, trainer: Trainer) -> None:
        """Note when the update begins."""
        self._begin = time.perf_counter()

    def on_step_end(self, trainer: Trainer) -> None:
        """Note when an evaluation after this step would begin."""
        self._begin = time.perf_counter()

    def on_save(self, trainer: Trainer) -> None:
        """Note that the rows are those of this run, which may go on."""
        self._resumed = True

    def on_train_end(self, trainer: Trainer) -> None:
        """Unlock the folder, and end the progress bar."""
        self._bar.stop()
        self._lock.close()

    def on_log(self, trainer: Trainer, row: Row, rollouts: Sequence[Rollout] = ()) -> None:
        """Write a row of metrics, and its rollouts to `episodes.jsonl`."""
        if processes.rank() > 0:
            return
        update, kind = row["update"], row["kind"]
        append_json_line(self.folder.metrics, row)
        for rollout in rollouts:
            episode = episode_row(rollout, update, kind, trainer.options.record_tokens)
            append_json_line(self.folder.episodes, episode)
        if "reward_mean" not in row:  # a step of supervised learning
            return
        notes = [f"mean reward {row['reward_mean']:.3f}"]
        if kind in self._seconds:
            self._seconds[kind].append(time.perf_counter() - self._begin)
        if kind == "train":
            doubts, speed = _doubts(row), f"{row['tokens_per_second']:.0f} tokens/s"
            left = self._time_left(trainer, update)
            note = ", ".join([f"reward {row['reward_mean']:.3f}", speed, *doubts, *left])
            self._bar.update(self._task, advance=1, note=note)
            notes += [*doubts, *left]
        logger.info("update %d, %s: %s", update, kind, ", ".join(notes))
        if kind in ("train", "eval"):
            self._monitor.observe(row)

    def _time_left(self, trainer: Trainer, update: int) -> list[str]:
        """Estimate the time of the updates and evaluations after `update`; pages and checkpoints take little."""
        updates = trainer.total - update
        if not updates:
            return []
        seconds = updates * fmean(self._seconds["train"])
        if self._seconds["eval"]:
            evaluations = trainer.options.evaluations(trainer.total, first=update)
            seconds += evaluations * fmean(self._seconds["eval"])
        return [f"about {duration(seconds)} left"]

    def on_resume(self, trainer: Trainer) -> None:
        """Drop the rows after the checkpoint: of an update or, before the first, of a step of the warm start."""
        # An evaluation of this update goes, too: it may not have been written in full, and is repeated.
        update = trainer.learner.updates
        self._resumed = True
        self._bar.reset(self._task, completed=update, note="")
        if processes.rank() == 0:
            keep_json_lines(
                self.folder.metrics,
                lambda row: (
                    row.get("step", 1) <= trainer.num_sft_steps
                    if row["kind"] in BEFORE and not update
                    else _precedes(row, row["kind"], update)
                ),
            )
            keep_json_lines(self.folder.episodes, lambda row: _precedes(row, row["phase"], update))
            self._monitor.recall(read_json_lines(self.folder.metrics))

    def summary(self) -> dict[str, Any]:
        """Return the first and the last row of each kind: `first_train`, `last_train`, `first_eval`, `last_eval`.

        With a warm start also of the kinds `BEFORE`.

        And over all updates the `groups`, the `groups_without_signal`, the `silent_updates` that had no others,
        and the share of completions that were `cut_off` at the token limit.
        """
        rows = list(read_json_lines(self.folder.metrics))
        summary: dict[str, Any] = {}
        for kind in ("train", "eval"):
            of_kind = [row for row in rows if row["kind"] == kind]
            summary[f"first_{kind}"] = of_kind[0] if of_kind else None
            summary[f"last_{kind}"] = of_kind[-1] if of_kind else None
        for kind in BEFORE:
            if of_kind := [row for row in rows if row["kind"] == kind]:
                summary |= {f"first_{kind}": of_kind[0], f"last_{kind}": of_kind[-1]}
        train = [row for row in rows if row["kind"] == "train"]
        summary |= {
            key: sum(row[key] for row in train) for key in ("groups", "groups_without_signal")
        }
        summary |= {"silent_updates": sum(map(lacks_signal, train)), "cut_off": cut_off(train)}
        return processes.broadcast(summary)


def _progress_bar(show: bool | None) -> Progress:
    """Make the bar of updates done, reward, speed and time left, on stderr; `None` shows it on a terminal."""
    return Progress(
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
        disable=not (sys.stderr.isatty() if show is None else show),
    )


def _doubts(row: Mapping[str, Any]) -> list[str]:
    """List the reasons to doubt an update."""
    groups, idle, share = row["groups"], row["groups_without_signal"], cut_off([row])
    doubts = [f"{idle:.0f} of {groups:.0f} groups without signal"] if idle else []
    return [*doubts, f"{share:.0%} cut off"] if share else doubts


def _precedes(row: Mapping[str, Any], kind: str, update: int) -> bool:
    """Check whether a row was written in full before the checkpoint of `update`."""
    return bool(row["update"] < update or (row["update"] == update and kind == "train"))


class WarningMonitor:
    """Logs each warning of `find_warnings` once in a session."""

    def __init__(self) -> None:
        self._updates: list[Row] = []
        self._evaluations: list[Row] = []
        self._given: set[str] = set()

    def recall(self, rows: Iterable[Row]) -> None:
        """Take rows of updates and evaluations into account."""
        for row in rows:
            kept = {"train": self._updates, "eval": self._evaluations}.get(row["kind"], [])
            kept.append(row)
            # The first and the last rows are enough, and a run may have a million of them.
            del kept[WARNING_UPDATES:-WARNING_UPDATES]

    def observe(self, row: Row) -> None:
        """Take the row of the next update or evaluation into account, and warn."""
        self.recall([row])
        for warning in find_warnings(self._updates, self._evaluations):
            if warning.name not in self._given:
                self._given.add(warning.name)
                logger.warning("%s: %s", warning.name, warning.text)
