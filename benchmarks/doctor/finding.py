"""Findings of `llm-decpomdp doctor`."""

from __future__ import annotations

from collections.abc import Collection
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

    need: str = ""
    """Name under which `--need` requests it."""
    requested: bool = False
    """True if the environment requests it by a variable."""

    def is_requested(self, needs: Collection[str]) -> bool:
        """Check whether `--need` or a variable requests it; `core` is always requested."""
        by_name = self.need in needs or (self.demo and "demo" in needs)
        return self.core or self.requested or by_name

    @property
    def mark(self) -> str:
        """The state in a word: `ok`, `missing` or `optional`."""
        return "ok" if self.ok else "optional" if self.optional else "missing"
