"""Ctrl-C, SIGTERM and SIGHUP: deferred where they would tear an update, and raised with the remedy."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STOPS = (signal.SIGTERM, signal.SIGHUP)
"""Signals of batch systems whose time is up, and of terminals that are gone."""

SIGNALS = (signal.SIGINT, *STOPS)


class Interrupted(Exception):
    """A run was stopped by Ctrl-C, SIGTERM or SIGHUP and left a checkpoint.

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
def terminable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP do what Ctrl-C does, unless they are ignored, as under nohup."""
    if not _receives_signals():
        yield
        return
    previous = {number: signal.getsignal(number) for number in STOPS}
    handlers = {number: old for number, old in previous.items() if old is not signal.SIG_IGN}
    for number in handlers:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def defer_signals() -> Iterator[None]:
    """Hold Ctrl-C, SIGTERM and SIGHUP back until the end of a `with` block that must not be left half done."""
    if not _receives_signals():
        yield
        return
    pending: list[int] = []
    previous: dict[signal.Signals, Any] = {}
    try:
        for number in SIGNALS:
            previous[number] = signal.signal(number, lambda number, frame: pending.append(number))
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        if pending:
            signal.raise_signal(pending[0])


def _receives_signals() -> bool:
    return threading.current_thread() is threading.main_thread()
