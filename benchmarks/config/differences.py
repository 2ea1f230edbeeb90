"""Differences between two JSON-able values, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MOST = 3
"""Largest number of differences in a message."""


def differences(before: Any, now: Any, key: str = "") -> Iterator[str]:
    """Yield each key of nested mappings whose value has changed, such as "model.name was a and is b"."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*before, *now]):
            inner = f"{key}.{name}" if key else str(name)
            yield from differences(before.get(name), now.get(name), inner)
    elif before != now:
        yield f"{key} was {before} and is {now}"


def in_short(messages: Sequence[str]) -> str:
    """Join the first of some differences, and the number of the rest."""
    more = f"; and {len(messages) - MOST} more" if len(messages) > MOST else ""
    return "; ".join(messages[:MOST]) + more
