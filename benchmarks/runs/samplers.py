"""The servers that sample for a run, by its configuration."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_decpomdp.benchmarks.config.gpu_placement import parts
from llm_decpomdp.benchmarks.runs.setup import ResolvedRun
from llm_decpomdp.policy import Team

if TYPE_CHECKING:
    from llm_decpomdp.agents.models.causal_lm import CausalLM
    from llm_decpomdp.agents.remote.sampler import RemoteSampler
    from llm_decpomdp.agents.remote.server import Server


def attach_samplers(run: ResolvedRun, team: Team) -> dict[str, RemoteSampler]:
    """Let the policies of a team be sampled at servers: one for each base with a policy that learns.

    Returns:
        The samplers, by agent.

    Raises:
        ValueError: If there are several processes, or a model or adapter is none for a server.
    """
    from llm_decpomdp.agents.remote.sampler import RemoteSampler
    from llm_decpomdp.algorithms.learning import distributed as processes

    if processes.world_size() > 1:
        raise ValueError(
            f"sampler.engine=vllm works with one process that learns, and there are {processes.world_size()}: "
            "start the run without a launcher"
        )
    options, groups = run.config.sampler, _on_one_base(run, team)
    samplers: dict[str, RemoteSampler] = {}
    for place, group in enumerate(groups):
        folder = Path(tempfile.gettempdir(), f"llm_decpomdp-sampler-{secrets.token_hex(8)}")
        server = _server(run, place, group, folder)
        engine = next(iter(group.values())).engine
        sampler = RemoteSampler(engine, group, server, folder, options)
        engine.remote = sampler
        samplers |= {a: sampler for a, name in run.team.agents.items() if name in group}
    return samplers


def _on_one_base(run: ResolvedRun, team: Team) -> list[dict[str, CausalLM]]:
    """Return the policies of each engine that one of them learns with, by name, in the order of the team."""
    from llm_decpomdp.agents.models.causal_lm import CausalLM

    groups: dict[int, dict[str, CausalLM]] = {}
    for agent, name in run.team.agents.items():
        if isinstance(policy := team[agent], CausalLM):
            groups.setdefault(id(policy.engine), {})[name] = policy
    specs = run.team.policies
    return [group for group in groups.values() if any(specs[name].can_be_trained for name in group)]


def _server(run: ResolvedRun, place: int, group: Mapping[str, CausalLM], folder: Path) -> Server:
    from llm_decpomdp.agents.remote.server import (
        RunningServer,
        StartedServer,
        visible,
        vllm_command,
        vllm_flags,
    )

    options = run.config.sampler
    if options.urls:
        return RunningServer(options.urls[place], folder, options.start_timeout)
    policy = next(iter(group.values()))
    if not policy.name:
        raise ValueError(
            "a server loads its model from a folder or the hub, and this one was made in memory"
        )
    peft: dict[str, Any] = getattr(policy.model, "peft_config", {})
    gpus = run.team.policies[next(iter(group))].sample_on or []
    flags = vllm_flags(
        str(policy.compute_dtype).removeprefix("torch."),
        [peft[member.adapter].r for member in group.values() if member.adapter is not None],
        policy.model.device.type == "cpu" and not gpus,
        policy.encoder.context,
    )
    if len(gpus) > 1 and parts(options.flags) is None:
        flags["tensor_parallel_size"] = len(gpus)
    command = vllm_command(options.interpreter(), policy.name, {**flags, **options.flags})
    return StartedServer(command, folder, options.start_timeout, visible(gpus) if gpus else {})
