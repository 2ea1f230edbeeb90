"""The command `doctor`."""

from __future__ import annotations


def doctor() -> None:
    """Check what works on this machine, and say how to get the rest."""
    from llm_decpomdp.benchmarks.doctor.examine import examine

    raise SystemExit(0 if examine() else 1)
