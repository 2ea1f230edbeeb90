"""Other places where a run loads policies: rollout workers, servers that sample, and opponents."""

from __future__ import annotations

import logging
import secrets
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.inference.determinism import use_deterministic_kernels
from llm_decpomdp.agents.models.causal_lm import CausalLM
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
from llm_decpomdp.agents.saved_team import load_saved_team
from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollout_workers.rollout_worker import RolloutWorker, WorkerState
from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.errors import RunError, raise_run_errors
from llm_decpomdp.benchmarks.config.placement import in_worker, parts
from llm_decpomdp.benchmarks.runs.setup import ResolvedRun
from llm_decpomdp.policy import Team

logger = logging.getLogger(__name__)


def make_rollout_worker(run: ResolvedRun, team: Team) -> RolloutWorker | None:
    """Build the rollout worker of a run; `None` if the process that learns samples everything itself.

    The policies of the team are attached to servers if the run has some.

    Raises:
        ValueError: As `attach_samplers`.
        RunError: If Ray cannot be started.
    """
    cluster, algorithm = run.config.cluster, run.config.algorithm
    samplers = attach_samplers(run, team) if run.config.sampler.engine == "vllm" else {}
    if not cluster.rollout_workers:
        if not samplers:
            return None
        from llm_decpomdp.algorithms.rollout_workers.async_server import AsyncServerRollouts

        return AsyncServerRollouts(WorkerState(run.train_env, run.eval_env, team), samplers)
    batches = -(-algorithm.prompts_per_update // (algorithm.rollout.starts_per_bundle or 1))
    if batches < cluster.rollout_workers:
        logger.warning(
            "%d rollout workers share updates of %d rollout batches, so some of them always wait: raise "
            "prompts_per_update, lower rollout_batch_size, or take fewer workers",
            cluster.rollout_workers,
            batches,
        )
    build = partial(make_worker_state, run)
    if cluster.engine == "ray":
        from llm_decpomdp.algorithms.rollout_workers.ray_workers import RayRolloutWorkers

        with raise_run_errors():
            return RayRolloutWorkers(
                build,
                cluster.rollout_workers,
                cluster.max_redo,
                samplers,
                address=cluster.address,
                trusted_network=cluster.trusted_network,
                cpus=cluster.worker_cpus,
                gpus=cluster.worker_gpus,
            )
    from llm_decpomdp.algorithms.rollout_workers.process_workers import ProcessRolloutWorkers

    return ProcessRolloutWorkers(build, cluster.rollout_workers, cluster.max_redo, samplers)


def make_worker_state(run: ResolvedRun) -> WorkerState:
    """Build the state of a worker: the run's environments, and its team again, placed on the worker's devices."""
    # Called in the worker: each loads its own copy of the models, and keeps its kernels to the end.
    if run.config.learner.deterministic:
        use_deterministic_kernels()
    placed = replace(run.team, policies=in_worker(run.config, run.team.policies))
    team = teams.load(run.config, (run.train_env, run.eval_env), placed)
    return WorkerState(run.train_env, run.eval_env, team)


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
    for place, group in enumerate(groups):
        # Not made here: the server makes it, readable by this user alone, and removes it.
        folder = Path(tempfile.gettempdir(), f"llm_decpomdp-sampler-{secrets.token_hex(8)}")
        engine = next(iter(group.values())).engine
        server = _make_server(run, place, group, folder)
        make_group = _transfer_group(run, group)
        sampler = RemoteSampler(engine, group, server, folder, run.config.sampler, make_group)
        engine.remote = sampler
        samplers |= {a: sampler for a, name in run.team.agents.items() if name in group}
    return samplers


def _transfer_group(
    run: ResolvedRun, group: dict[str, CausalLM]
) -> Callable[[], TransferGroup] | None:
    """Return what makes the group of this process and the GPUs of a server, where full weights go by NCCL."""
    name, policy = next(iter(group.items()))
    if run.config.sampler.transfer == "files" or policy.adapter is not None:
        return None
    gpus = run.team.policies[name].sample_on or []
    return partial(NcclGroup, policy.model.device, 1 + len(gpus))


def _make_server(run: ResolvedRun, place: int, group: dict[str, CausalLM], folder: Path) -> Server:
    options = run.config.sampler
    if options.urls:
        return RunningServer(options.urls[place], folder, options.start_timeout)
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


def load_opponents(run: ResolvedRun) -> Team:
    """Load the saved team that preference pairs compare the team with.

    Raises:
        RunError: If it cannot be loaded.
        ValueError: If it names code or servers that the configuration does not name.
    """
    folder = str(run.config.algorithm.named_comparator)
    try:
        return load_saved_team(
            folder,
            device=run.config.model.device,
            seed=run.config.seed,
            allow_code=teams.code_of(run.config),
            allow_endpoints=teams.endpoints_of(run.config),
        )
    except (OSError, ImportError) as error:
        raise RunError(f"cannot load the team in {folder}: {error}") from error
