"""The progress bar of a run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class ProgressBar:
    """Updates done, mean reward, tokens per second and time left, on stderr; a context manager.

    Args:
        total: All updates of the run.
        show: Whether to draw it; `None` draws it on a terminal.
    """

    def __init__(self, total: int, show: bool | None = None) -> None:
        self._progress = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            speed_estimate_period=600,  # seconds; an update may take minutes
            disable=not (sys.stderr.isatty() if show is None else show),
        )
        self._task = self._progress.add_task("training", total=total, note="")

    def __enter__(self) -> None:
        self._progress.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def resume(self, update: int) -> None:
        """Begin at `update`, and estimate the time left from the updates that follow."""
        self._progress.reset(self._task, completed=update, note="")

    def advance(self, reward: float, tokens_per_second: float, doubts: Sequence[str] = ()) -> None:
        """One more update is done; `doubts` say what speaks against learning from it."""
        note = ", ".join([f"reward {reward:.3f}", f"{tokens_per_second:.0f} tokens/s", *doubts])
        self._progress.update(self._task, advance=1, note=note)
