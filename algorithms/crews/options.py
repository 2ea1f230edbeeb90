"""Options of crews, and what may end one."""

from __future__ import annotations

from dataclasses import dataclass

from llm_decpomdp.options import Options, option


class CrewError(RuntimeError):
    """A bundle could not be played, though it was tried again."""


@dataclass(frozen=True)
class ClusterOptions(Options):
    """Where the starts of updates and evaluations are played. Nothing here changes what is sampled."""

    rollout_workers: int = option(0, ge=0)
    """Processes that play bundles at the same time, each with environment, sandbox and a copy of the team on the
    same devices; 0 plays all in the process that learns. Needs `algorithm.starts_per_bundle`. With several
    processes of a launcher each has so many of its own."""
    max_redo: int = option(3, ge=0)
    """Most times that a bundle is played again because the worker that played it has died; then the run ends."""
