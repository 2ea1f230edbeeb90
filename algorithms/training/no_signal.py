"""Updates without signal: a warning while a run goes on, and its reason."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

PATIENCE = 5
"""Updates without signal in a row that are worth a warning."""

MOSTLY = 0.5
"""Share of completions at the token limit from which on that is likely why."""

Row = Mapping[str, Any]
"""A row of `metrics.jsonl` of kind `train`."""

logger = logging.getLogger(__name__)


class SignalMonitor:
    """Warns, once, of several updates in a row in which no group had a signal."""

    def __init__(self) -> None:
        self._rows: list[Row] = []

    def observe(self, row: Row) -> None:
        """Take the row of the next update into account."""
        if len(self._rows) == PATIENCE:  # the warning was given
            return
        self._rows = [*self._rows, row] if lacks_signal(row) else []
        if len(self._rows) == PATIENCE:
            logger.warning("%d updates in a row taught nothing: %s", PATIENCE, reason(self._rows))


def lacks_signal(row: Row) -> bool:
    """Check whether no group of an update had a signal: all advantages are zero."""
    return bool(row["groups_without_signal"] == row["groups"])


def cut_off(rows: Sequence[Row]) -> float:
    """Compute the share of completions at the token limit: the mean over agents and updates."""
    shares = (value for row in rows for key, value in row.items() if key.startswith("truncated/"))
    return float(np.mean(list(shares)))


def reason(rows: Sequence[Row]) -> str:
    """Explain updates that taught nothing, and name the remedies."""
    share = cut_off(rows)
    limit = (
        f" {share:.0%} of the completions are cut off at the token limit: raise max_new_tokens."
        if share >= MOSTLY
        else ""
    )
    return (
        f"all completions of a group were worth the same.{limit} For more variety raise temperature or "
        "num_generations (group_size); for rewards that differ take other tasks, easier ones if none is solved"
    )
