"""Checks of arguments; errors name the value and the nearest valid one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from math import inf

LISTED = 12
"""Maximum number of valid names that an error lists completely."""

NEAREST = 5
"""Number of listed names if there are more than `LISTED`."""


def unknown(kind: str, name: object, valid: Iterable[str], listing: str = "") -> str:
    """Return the text of an error about an unknown name.

    Args:
        kind: What the name is for, such as `mode`.
        name: The name.
        valid: All valid names. If there are more than `LISTED`, the text has the `NEAREST` nearest.
        listing: How to list all valid names, such as "`llm-decpomdp list` shows all".

    Examples:
        >>> unknown("mode", "pasesd", ["passed", "plain"])
        "unknown mode 'pasesd'; did you mean 'passed'? Valid: passed, plain"
    """
    names = sorted(valid)
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    listed = ", ".join(names)
    if len(names) > LISTED:
        nearest = get_close_matches(str(name), names, NEAREST, cutoff=0.3) or names[:NEAREST]
        listed = f"{', '.join(nearest)} and {len(names) - len(nearest)} more"
        listed += f" ({listing})" if listing else ""
    return f"unknown {kind} {name!r}; {hint}Valid: {listed}"


def check_whole(name: str, value: object, least: int, most: float = inf) -> None:
    """Raise a `ValueError` unless a value is a whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        bounds = f"of at least {least}" if most == inf else f"from {least} to {most}"
        raise ValueError(f"{name} must be a whole number {bounds}, got {value!r}")


def check_flags(**flags: object) -> None:
    """Raise a `ValueError` unless all flags are True or False: a text such as "no" must not count as true."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, got {value!r}")
