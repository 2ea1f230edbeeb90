"""Callbacks of the trainer, with the method names of Hugging Face's `TrainerCallback`, and signals that end a run.

The order of one update, and what each hook may rely on:

1. `on_step_begin`: nothing of the update is sampled by this process yet.
2. `on_optimizer_step`: weights have changed. What learns besides the policies changes here, and may add metrics.
3. `on_log`: the row of the update is written.
4. `on_update_end`: weights, state and rows are those of one complete update. Signals wait until here.
5. `on_step_end`: checkpoints and evaluations, which may be interrupted.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.rollouts.rollout import Rollout
    from llm_decpomdp.algorithms.training.rollout_source import TrainBatch
    from llm_decpomdp.algorithms.training.trainer import Trainer


class TrainerCallback:
    """Does nothing at each event of a run; subclasses override what they need.

    Callbacks are called in the order in which the trainer was given them, in all processes of a run.
    """

    state_key: str | None = None
    """Key of `state_dict` in checkpoints; `None` for callbacks without a state."""
    option_names: Collection[str] = ()
    """Options of the trainer that mean nothing without such a callback."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """JSON-able values that must be the same when the run is resumed, by name."""
        return {}

    def on_init_end(self, trainer: Trainer) -> None:
        """The trainer was built."""

    def on_resume(self, trainer: Trainer) -> None:
        """The run continues from a checkpoint; the first callback that has one loads it."""

    def on_train_begin(self, trainer: Trainer) -> None:
        """Before the first update of this session."""

    def on_step_begin(self, trainer: Trainer) -> None:
        """Before an update."""

    def on_optimizer_step(self, trainer: Trainer, batch: TrainBatch, row: dict[str, Any]) -> None:
        """Weights have changed.

        Args:
            trainer: The trainer.
            batch: The rollouts of the update, collected in the first process.
            row: The metrics of the update, to which more may be added.
        """

    def on_log(
        self, trainer: Trainer, row: Mapping[str, Any], rollouts: Sequence[Rollout] = ()
    ) -> None:
        """A row of metrics is complete; `update` and `kind` are among its keys.

        Args:
            trainer: The trainer.
            row: The row.
            rollouts: The rollouts or episodes that it is of, in the first process.
        """

    def on_update_end(self, trainer: Trainer) -> None:
        """An update, or a step of the warm start, is complete."""

    def on_step_end(self, trainer: Trainer) -> None:
        """After an update, or a step of the warm start."""

    def on_evaluate(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        """An evaluation is over and written."""

    def on_save(self, trainer: Trainer) -> None:
        """A checkpoint was written."""

    def on_exception(self, trainer: Trainer, failure: BaseException) -> None:
        """The run ends with a failure or a signal; may raise an error that explains it better."""

    def on_train_end(self, trainer: Trainer) -> None:
        """The session is over, whether by the last update or by a failure."""

    def state_dict(self) -> dict[str, Any]:
        """Return what the run needs to continue exactly: tensors, numbers, strings and containers of them."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value, after the policies' weights were loaded."""


# Signals of batch systems whose time is up, and of terminals that are gone.
STOPS = (signal.SIGTERM, signal.SIGHUP)


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
        self.folder, self.update = folder, update


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP do what Ctrl-C does, unless they are ignored, as under nohup."""
    if not _receives_signals():
        yield
        return
    previous = {number: signal.getsignal(number) for number in STOPS}
    # nohup ignores SIGHUP, so that a run survives its terminal.
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
        for number in (signal.SIGINT, *STOPS):
            previous[number] = signal.signal(number, lambda number, frame: pending.append(number))
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        if pending:  # only now, as the previous handlers have to see it
            signal.raise_signal(pending[0])


def _receives_signals() -> bool:
    # Python runs handlers in the main thread only, and refuses to set them elsewhere.
    return threading.current_thread() is threading.main_thread()
