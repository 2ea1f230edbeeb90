"""What `llm-decpomdp doctor` finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One line of the examination."""

    ok: bool
    what: str
    remedy: str = ""
    core: bool = False
    """Whether nothing works without it."""
