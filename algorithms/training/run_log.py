"""The log of a run: its rows, written, dropped again and summed up."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.algorithms.training.metrics import episode_row
from llm_decpomdp.algorithms.training.no_signal import SignalMonitor, cut_off, lacks_signal
from llm_decpomdp.algorithms.training.progress import ProgressBar
from llm_decpomdp.utils.storage import RunFolder, append_json_line, keep_json_lines, read_json_lines
from llm_decpomdp.utils.wording import duration

logger = logging.getLogger(__name__)

Listener = Callable[[Mapping[str, Any]], None]
"""Receives each row of `metrics.jsonl` once it is written, and must not raise."""


class RunLog:
    """Writes `metrics.jsonl` and `episodes.jsonl`, in the first of several processes alone.

    Args:
        folder: The run folder.
        updates: All updates of the run.
        progress: Whether to show a progress bar on stderr; `None` shows it on a terminal.
        record_tokens: Whether `episodes.jsonl` holds token ids and log-probabilities.
    """

    def __init__(
        self, folder: RunFolder, updates: int, progress: bool | None, record_tokens: bool = False
    ) -> None:
        self.folder = folder
        self.record_tokens = record_tokens
        self.listeners: Sequence[Listener] = ()
        self.bar = ProgressBar(updates, progress if processes.rank() == 0 else False)
        self._total = updates
        self._signal = SignalMonitor()
        self._begin, self._made = time.perf_counter(), 0  # of the updates of this session

    @property
    def begun(self) -> bool:
        """True if there are rows already."""
        return processes.broadcast(self.folder.metrics.exists())

    def write(
        self, update: int, kind: str, row: Mapping[str, Any], rollouts: Sequence[Rollout]
    ) -> None:
        """Add the row and the rollouts of an update or an evaluation, `kind` being `train` or `eval`."""
        if processes.rank() > 0:
            return
        entry = {"update": update, "kind": kind, **row}
        append_json_line(self.folder.metrics, entry)
        for rollout in rollouts:
            episode = episode_row(rollout, update, kind, self.record_tokens)
            append_json_line(self.folder.episodes, episode)
        for listener in self.listeners:
            listener(entry)
        notes = [f"mean reward {row['reward_mean']:.3f}"]
        if kind == "train":
            self._made += 1
            notes += [*_doubts(row), *self._time_left(update)]
            self.bar.advance(row["reward_mean"], row["tokens_per_second"], _doubts(row))
        elif not self._made:
            self._begin = time.perf_counter()  # the first evaluation is over
        logger.info("update %d, %s: %s", update, kind, ", ".join(notes))
        if kind == "train":
            self._signal.observe(row)

    def _time_left(self, update: int) -> list[str]:
        """Estimate the time of the remaining updates at the pace so far, with the evaluations between them."""
        pace = (time.perf_counter() - self._begin) / self._made
        updates = self._total - update
        return [f"about {duration(pace * updates)} left"] if updates else []

    def rewind(self, update: int) -> None:
        """Drop the rows after the checkpoint of an update.

        An evaluation after the update is dropped with it: it may not have been written in full.
        """
        self.bar.resume(update)
        if processes.rank() == 0:
            keep_json_lines(self.folder.metrics, lambda row: _precedes(row, row["kind"], update))
            keep_json_lines(self.folder.episodes, lambda row: _precedes(row, row["phase"], update))

    def summary(self) -> dict[str, Any]:
        """Return the first and the last row of each kind: `first_train`, `last_train`, `first_eval`, `last_eval`.

        And over all updates the `groups`, the `groups_without_signal`, the `silent_updates` that had no others,
        and the share of completions that were `cut_off` at the token limit.
        """
        rows = list(read_json_lines(self.folder.metrics))
        summary: dict[str, Any] = {}
        for kind in ("train", "eval"):
            of_kind = [row for row in rows if row["kind"] == kind]
            summary[f"first_{kind}"] = of_kind[0] if of_kind else None
            summary[f"last_{kind}"] = of_kind[-1] if of_kind else None
        train = [row for row in rows if row["kind"] == "train"]
        summary |= {
            key: sum(row[key] for row in train) for key in ("groups", "groups_without_signal")
        }
        summary |= {"silent_updates": sum(map(lacks_signal, train)), "cut_off": cut_off(train)}
        return processes.broadcast(summary)


def _doubts(row: Mapping[str, Any]) -> list[str]:
    """List the reasons to doubt an update."""
    groups, idle, share = row["groups"], row["groups_without_signal"], cut_off([row])
    doubts = [f"{idle:.0f} of {groups:.0f} groups without signal"] if idle else []
    return [*doubts, f"{share:.0%} cut off"] if share else doubts


def _precedes(row: Mapping[str, Any], kind: str, update: int) -> bool:
    """Check whether a row was written in full before the checkpoint of `update`."""
    return bool(row["update"] < update or (row["update"] == update and kind == "train"))
