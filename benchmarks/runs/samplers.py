"""Servers that sample for the policies of a run that learn: `inference.engine=vllm`."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from llm_decpomdp.agents import CausalLM
from llm_decpomdp.agents.remote.sampler import RemoteSampler
from llm_decpomdp.agents.remote.server import (
    RunningServer,
    Server,
    StartedServer,
    visible,
    vllm_command,
    vllm_flags,
)
from llm_decpomdp.agents.remote.transfer import BACKEND, NcclGroup, TransferGroup
from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.benchmarks.config.placement import parts
from llm_decpomdp.benchmarks.runs.setup import ResolvedRun
from llm_decpomdp.policy import Team


def attach_samplers(run: ResolvedRun, team: Team) -> dict[str, RemoteSampler]:
    """Let servers sample for the policies of a team: one server for each base model with a policy that learns.

    Returns:
        The samplers, by agent.

    Raises:
        ValueError: If there are several processes, or a server cannot load a model or adapter.
    """
    if processes.world_size() > 1:
        raise ValueError(
            f"inference.engine=vllm works with one process that learns, and there are {processes.world_size()}: "
            "start the run without a launcher"
        )
    specs = run.team.policies
    by_engine: dict[int, dict[str, CausalLM]] = {}
    for agent, name in run.team.agents.items():
        if isinstance(policy := team[agent], CausalLM):
            by_engine.setdefault(id(policy.engine), {})[name] = policy
    groups = [g for g in by_engine.values() if any(specs[name].can_be_trained for name in g)]
    samplers: dict[str, RemoteSampler] = {}
    kind = RemoteSampler
    if run.config.algorithm.rollout.in_flight:
        from llm_decpomdp.agents.remote.in_flight import InFlightSampler

        kind = InFlightSampler
    for place, group in enumerate(groups):
        # Not made here: the server makes it, readable by this user alone, and removes it.
        folder = Path(tempfile.gettempdir(), f"llm_decpomdp-sampler-{secrets.token_hex(8)}")
        engine = next(iter(group.values())).engine
        server = _make_server(run, place, group, folder)
        make_group = _transfer_group(run, group)
        sampler = kind(engine, group, server, folder, run.config.inference, make_group)
        engine.remote = sampler
        samplers |= {a: sampler for a, name in run.team.agents.items() if name in group}
    return samplers


def _transfer_group(
    run: ResolvedRun, group: dict[str, CausalLM]
) -> Callable[[], TransferGroup] | None:
    """Return what makes the group of this process and the GPUs of a server, where full weights go by NCCL."""
    name, policy = next(iter(group.items()))
    if run.config.inference.transfer == "files" or policy.adapter is not None:
        return None
    gpus = run.team.policies[name].sample_on or []
    # The group has this process and one of the server for each of its GPUs.
    return partial(NcclGroup, policy.model.device, 1 + len(gpus))


def _make_server(run: ResolvedRun, place: int, group: dict[str, CausalLM], folder: Path) -> Server:
    options = run.config.inference
    if options.urls:
        return RunningServer(options.urls[place], folder, options.start_timeout)
    # All policies of a group have one base, so the first one stands for them.
    first, policy = next(iter(group.items()))
    if not policy.name:
        raise ValueError(
            "a server loads its model from a folder or the hub, and this one was made in memory"
        )
    # The server must have room for the largest rank of all adapters.
    peft: dict[str, Any] = getattr(policy.model, "peft_config", {})
    gpus = run.team.policies[first].sample_on or []
    flags = vllm_flags(
        str(policy.compute_dtype).removeprefix("torch."),
        [peft[member.adapter].r for member in group.values() if member.adapter is not None],
        policy.model.device.type == "cpu" and not gpus,
        policy.encoder.context,
    )
    if options.transfer == "nccl" and policy.adapter is None:
        flags["weight_transfer_config"] = BACKEND
    if len(gpus) > 1 and parts(options.flags) is None:
        flags["tensor_parallel_size"] = len(gpus)
    command = vllm_command(options.interpreter(), policy.name, {**flags, **options.flags})
    return StartedServer(command, folder, options.start_timeout, visible(gpus) if gpus else {})
