"""Options of rollout workers, and what may end one."""

from __future__ import annotations

from typing import ClassVar

from llm_decpomdp.options import Options, option


class RolloutWorkerError(RuntimeError):
    """A batch could not be played, though it was tried again."""


class ClusterOptions(Options):
    """Where the starts of updates and evaluations are played. Nothing here changes what is sampled."""

    switch = "engine"
    former_names: ClassVar = {"max_redo": "max_retries"}
    engine: str = option("local", choices=("local", "ray"), unless=("rollout_workers", 0))
    """What starts rollout workers: this machine (`local`), or Ray, on the nodes of a cluster (`ray`, of the extra
    `cluster`)."""
    address: str | None = option(None, unless=("engine", "local"))
    """Of the Ray cluster: of its head as `host:port`, `auto` for one that runs on this machine, null to start one
    here for this run alone."""
    trusted_network: bool = option(False, unless=("engine", "local"))
    """Join a Ray cluster that asks for no token: all who reach it may run code on its nodes."""
    worker_cpus: float = option(1.0, ge=0, unless=("engine", "local"))
    """CPUs of a node that Ray keeps for each rollout worker."""
    worker_gpus: float = option(0.0, ge=0, unless=("engine", "local"))
    """GPUs of a node that Ray keeps for each rollout worker; its policies see these alone."""
    rollout_workers: int = option(0, ge=0)
    """Processes that play batches at the same time, each with environment, sandbox and a copy of the team on the
    same devices, but for what servers sample (`inference.engine`); 0 plays all in the process that learns. Needs
    `algorithm.rollout.rollout_batch_size`. With several processes of a launcher each has so many of its own."""
    max_retries: int = option(3, ge=0)
    """Most times that a batch is played again because the worker that played it has died; then the run ends."""
