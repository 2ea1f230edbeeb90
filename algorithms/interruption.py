"""Ctrl-C: where it may strike, and what it leaves behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Interrupted(Exception):
    """A run was stopped by Ctrl-C and left a checkpoint.

    Args:
        folder: The run's folder.
        update: The last complete update.
        total: All updates of the run.
    """

    def __init__(self, folder: Path, update: int, total: int) -> None:
        super().__init__(
            f"stopped after update {update} of {total}, which is saved in {folder}. To continue as "
            "if it had not stopped, resume the run from that folder with the same configuration"
        )
        self.folder = folder
        self.update = update


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back until the end of a `with` block that must not be left half done."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals only reach the main thread
        return
    held: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, frame: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if held:
            signal.raise_signal(signal.SIGINT)
