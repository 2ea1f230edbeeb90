"""Conformance checks for text environments."""

from __future__ import annotations

from typing import Any


class ConformanceError(AssertionError):
    """An environment breaks the contract."""


def check_env(make_env: Any, **options: Any) -> None:
    """Check an environment."""
    raise NotImplementedError
