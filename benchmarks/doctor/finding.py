"""Findings of `llm-decpomdp doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One line of the examination."""

    ok: bool
    message: str
    remedy: str = ""
    core: bool = False
    """True if nothing works without it."""
    demo: bool = False
    """True if the command `demo` needs it."""
    optional: bool = False
    """True if most users do well without it."""

    @property
    def mark(self) -> str:
        """The state in a word: `ok`, `missing` or `optional`."""
        return "ok" if self.ok else "optional" if self.optional else "missing"
