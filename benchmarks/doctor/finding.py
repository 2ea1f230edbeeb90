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
    demo: bool = False
    """Whether the command `demo` needs it."""
    optional: bool = False
    """Whether most users do well without it."""

    @property
    def mark(self) -> str:
        """The state in a word: `ok`, `missing` or `optional`."""
        return "ok" if self.ok else "optional" if self.optional else "missing"
