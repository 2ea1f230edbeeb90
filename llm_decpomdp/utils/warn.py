"""Warnings that name the user's line, however deep in the package their cause is."""

from __future__ import annotations

import sys
import warnings

BETWEEN = ("llm_decpomdp", "pettingzoo", "gymnasium")
"""Packages whose frames are skipped on the way to the user's line."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line that is in none of the packages of `BETWEEN`."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
