"""What may fail while models, data and programs are at work, as an error that is told in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.runs.train import FAILURES


@contextmanager
def as_run_errors() -> Iterator[None]:
    """Turn the failures that a run may end with into a `RunError`; mistakes of the caller stay as they are."""
    try:
        yield
    except ConfigError:
        raise
    except FAILURES as error:
        raise RunError(str(error)) from error
