"""A run that goes on, in a terminal: progress, curve, warnings and newest answers, from its files alone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from llm_decpomdp.algorithms.training.metrics import find_warnings
from llm_decpomdp.benchmarks.runs.results import Row, task_name
from llm_decpomdp.utils.storage import LOCK, RunFolder
from llm_decpomdp.utils.text import duration, plain, shorten

HEIGHT = 6

WIDE = 60
"""Columns that a short curve is stretched to."""

BLOCKS = " ▁▂▃▄▅▆▇█"
"""Columns of an eighth of a line to a whole one."""

ANSWER = 700

NARROW = 24
"""Columns of a terminal below which an answer has a whole line to itself."""

TAIL = 1 << 22
"""Bytes at the end of `episodes.jsonl` in which the newest row is looked for."""


def watch_run(path: Path, seconds: float, console: Console) -> None:
    """Show a run until no process writes to its folder any more; show one that has ended once."""
    folder, view = RunFolder(path), RunView(path)
    # The view changes only at a look at the files, so no thread has to draw it in between.
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            # Before the files are read: what a run writes until it ends is then in the last view.
            writes = (folder.path / LOCK).exists()
            view.read()
            live.update(view.draw(writes, console.width), refresh=True)
            if not writes:
                return
            time.sleep(seconds)


class RunView:
    """What is known of a run, which grows with its files."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder(path)
        self.updates: list[Row] = []
        self.evaluations: list[Row] = []
        self.lessons = 0
        """Steps of a warm start."""
        self.episode: Row | None = None
        """The newest complete row of `episodes.jsonl`."""
        self._offset = 0

    def read(self) -> None:
        """Read the rows that were added."""
        metrics = self.folder.metrics
        if metrics.is_file():
            if metrics.stat().st_size < self._offset:  # the run went on from a checkpoint
                self.updates, self.evaluations, self._offset = [], [], 0
            with metrics.open("rb") as file:
                file.seek(self._offset)
                for line in file:
                    if line.endswith(b"\n"):  # else it is still being written
                        self._offset += len(line)
                        self._add(json.loads(line))
        self.episode = newest_row(self.folder.episodes) or self.episode

    def _add(self, row: Row) -> None:
        if row["kind"] == "train":
            self.updates.append(row)
        elif row["kind"] == "eval":
            self.evaluations.append(row)
        else:
            self.lessons += "step" in row

    def draw(self, writes: bool, width: int) -> RenderableType:
        """Return all parts; `writes` tells whether a process writes to the folder."""
        return Group(
            *self._head(writes, width),
            *self._curve(width),
            *self._warnings(),
            *self._answers(width),
        )

    def _head(self, writes: bool, width: int) -> Iterator[RenderableType]:
        manifest = self.folder.read_manifest() if self.folder.manifest.is_file() else {}
        about = [self.folder.path.name, manifest.get("algorithm"), manifest.get("environment")]
        state = "running" if writes else "no process writes to it"
        if writes and self.folder.metrics.is_file():
            # The clock of another machine may be ahead.
            age = max(time.time() - self.folder.metrics.stat().st_mtime, 0.0)
            state += f", newest row {duration(age)} ago"
        yield plain(" · ".join(str(part) for part in (*about, state) if part))
        total, done = int(manifest.get("updates", 0)), len(self.updates)
        if total:
            table = Table.grid(padding=(0, 1))
            bar = ProgressBar(total=total, completed=done, width=max(width // 2, 10))
            table.add_row(bar, f"{done} of {total} updates")
            yield table
        elif done:
            yield Text(f"{done} updates")
        if self.lessons and not done:
            yield Text(f"warm start: {self.lessons} steps")
        if self.evaluations:
            numbers = [f"{row['reward_mean']:.3f}" for row in self.evaluations[-6:]]
            yield Text(f"evaluations: {' → '.join(numbers)}")

    def _curve(self, width: int) -> Iterator[RenderableType]:
        values = [row["reward_mean"] for row in self.updates]
        if len(values) < 2:
            return
        label = f"mean team reward, {min(values):.2f} to {max(values):.2f}; newest {values[-1]:.2f}"
        yield Text(label, style="dim")
        for line in plot(values, width - 2):
            yield Text(line, style="cyan", no_wrap=True)

    def _warnings(self) -> Iterator[RenderableType]:
        for warning in find_warnings(self.updates, self.evaluations):
            yield plain(f"warning: {warning.name}: {warning.text}")

    def _answers(self, width: int) -> Iterator[RenderableType]:
        row = self.episode
        if row is None or not row.get("groups"):
            return
        group = row["groups"][-1]
        rewards = group["rewards"]
        best = group["chosen"] if group["chosen"] is not None else int(np.argmax(rewards))
        phase = "evaluation" if row["phase"] == "eval" else f"update {row['update']}"
        title = f"newest answers: {task_name(row)}, {phase}, turn {group['turn'] + 1}"
        yield plain(f"{title}, reward {rewards[best]:.2f}")
        panels = []
        for agent, number in zip(group["completions"], group["joint"][best], strict=True):
            text = shorten(group["completions"][agent][number], ANSWER)
            panels.append(Panel(plain(text), title=plain(agent), title_align="left"))
        if width // len(panels) < NARROW:
            yield from panels
            return
        table = Table.grid(expand=True)
        for _ in panels:
            table.add_column(ratio=1)
        table.add_row(*panels)
        yield table


def plot(values: Sequence[float], width: int) -> list[str]:
    """Draw a curve as lines of blocks; many values are averaged to fit the width.

    Examples:
        >>> plot([0, 1], 2)[-1]
        '▁█'
    """
    parts = [
        np.mean(part) for part in np.array_split(np.array(values, float), min(len(values), width))
    ]
    low, high = min(parts), max(parts)
    # The lowest value has the height of one eighth, so that it is seen.
    steps = HEIGHT * (len(BLOCKS) - 1)
    share = [(value - low) / (high - low) if high > low else 0.5 for value in parts]
    heights = [1 + round(part * (steps - 1)) for part in share]
    eighths = len(BLOCKS) - 1
    heights = [height for height in heights for _ in range(max(1, min(width, WIDE) // len(parts)))]
    return [
        "".join(BLOCKS[min(max(height - line * eighths, 0), eighths)] for height in heights)
        for line in reversed(range(HEIGHT))
    ]


def newest_row(path: Path) -> dict[str, Any] | None:
    """Return the last complete row of a JSON Lines file that may be of gigabytes; `None` without one."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - TAIL, 0))
        lines = file.read().split(b"\n")
    # What follows the last line end is incomplete, and the first line may have lost its beginning.
    for line in reversed(lines[:-1]):
        try:
            row = json.loads(line)
        except ValueError:
            return None
        return row if isinstance(row, dict) else None
    return None
