"""How two JSON-able values differ, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MOST = 3
"""How many differences a message names."""


def differences(before: Any, now: Any, key: str = "") -> Iterator[str]:
    """Each key of nested mappings whose value has changed, such as "model.name was a and is b"."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*before, *now]):
            inner = f"{key}.{name}" if key else str(name)
            yield from differences(before.get(name), now.get(name), inner)
    elif before != now:
        yield f"{key} was {before} and is {now}"


def in_short(told: Sequence[str]) -> str:
    """The first of some differences, and how many there are besides."""
    more = f"; and {len(told) - MOST} more" if len(told) > MOST else ""
    return "; ".join(told[:MOST]) + more
