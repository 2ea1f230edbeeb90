"""Errors that the command line reports in one line, without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class ConfigError(ValueError):
    """Something in a configuration or on a command line is wrong; the text says what to change.

    Exit code 2.
    """


class RunError(RuntimeError):
    """A run cannot start or go on: its data, its models or its numbers fail it. Exit code 1."""


ALONE = "a resumed run keeps its configuration and folder: give --resume FOLDER with nothing but --override"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what keeps a file or folder from being written into a `RunError` that names it."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error
