"""Updates that teach nothing: noticed while a run goes on, and told at its end."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

PATIENCE = 5
"""Silent updates in a row that are worth a warning."""

MOSTLY = 0.5
"""Share of completions at the token limit from which on that is likely why."""

Row = Mapping[str, Any]
"""A row of `metrics.jsonl` of kind `train`."""

logger = logging.getLogger(__name__)


class Silence:
    """Warns, once, of several updates in a row in which no group had a signal."""

    def __init__(self) -> None:
        self._rows: list[Row] = []

    def heed(self, row: Row) -> None:
        """Look at the row of the next update."""
        if len(self._rows) == PATIENCE:  # it was told
            return
        self._rows = [*self._rows, row] if is_silent(row) else []
        if len(self._rows) == PATIENCE:
            logger.warning("%d updates in a row taught nothing: %s", PATIENCE, reason(self._rows))


def is_silent(row: Row) -> bool:
    """Whether no group of an update had a signal."""
    return bool(row["groups_without_signal"] == row["groups"])


def cut_off(rows: Sequence[Row]) -> float:
    """The share of completions at the token limit: the mean over agents and updates."""
    shares = (value for row in rows for key, value in row.items() if key.startswith("truncated/"))
    return float(np.mean(list(shares)))


def reason(rows: Sequence[Row]) -> str:
    """Why updates taught nothing, and what to change."""
    cut = cut_off(rows)
    limit = (
        f" {cut:.0%} of the completions are cut off at the token limit: raise max_new_tokens."
        if cut >= MOSTLY
        else ""
    )
    return (
        f"all completions of a group were worth the same.{limit} For more variety raise temperature or "
        "num_generations (group_size); for rewards that differ take other tasks, easier ones if none is solved"
    )
