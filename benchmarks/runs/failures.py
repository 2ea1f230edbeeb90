"""Failures of models, data and programs at work, as errors that take one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llm_decpomdp.agents.remote.endpoint import EndpointError
from llm_decpomdp.agents.remote.options import SamplerError
from llm_decpomdp.algorithms.crews.options import CrewError
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.envs.modes.experts import ExpertError
from llm_decpomdp.envs.sandbox import SandboxError

FAILURES = (
    FloatingPointError,
    MemoryError,
    ValueError,
    OSError,
    EndpointError,
    ExpertError,
    SandboxError,
    CrewError,
    SamplerError,
)
"""Errors that may end a run which has begun."""


@contextmanager
def as_run_errors() -> Iterator[None]:
    """Turn the failures that a run may end with into a `RunError`; mistakes of the caller stay as they are."""
    try:
        yield
    except ConfigError:
        raise
    except FAILURES as error:
        raise RunError(str(error)) from error
