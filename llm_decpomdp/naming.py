"""Errors that name the nearest valid word."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def unknown(kind: str, name: object, valid: Iterable[str]) -> str:
    """The text of an error about a name that does not exist.

    Examples:
        >>> unknown("mode", "pasesd", ["passed", "plain"])
        "unknown mode 'pasesd'; did you mean 'passed'? Valid: passed, plain"
    """
    names = sorted(valid)
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return f"unknown {kind} {name!r}; {hint}Valid: {shown}"
