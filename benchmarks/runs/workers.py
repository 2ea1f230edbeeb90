"""The rollout workers of a run, which share its sampling."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

from llm_decpomdp.agents.inference.determinism import use_deterministic_kernels
from llm_decpomdp.agents.loading import TeamSpec
from llm_decpomdp.agents.remote.sampler import RemoteSampler
from llm_decpomdp.algorithms import WorkerState
from llm_decpomdp.algorithms.rollout_workers.base import RolloutWorker
from llm_decpomdp.benchmarks.config.errors import raise_run_errors
from llm_decpomdp.benchmarks.config.placement import in_worker
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.runs.setup import ResolvedRun, load_policies
from llm_decpomdp.env import DecPOMDPEnv
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
    samplers: dict[str, RemoteSampler] = {}
    if run.config.inference.engine == "vllm":
        from llm_decpomdp.benchmarks.runs.samplers import attach_samplers

        samplers = attach_samplers(run, team)
    if not cluster.rollout_workers:
        if not samplers:
            return None
        from llm_decpomdp.algorithms.rollout_workers.async_server import AsyncServerRollouts

        return AsyncServerRollouts(WorkerState(run.train_env, run.eval_env, team), samplers)
    # Rounded up, as the last batch may be smaller.
    batches = -(-algorithm.train_batch_size // (algorithm.rollout.rollout_batch_size or 1))
    if batches < cluster.rollout_workers:
        logger.warning(
            "%d rollout workers share updates of %d rollout batches, so some of them always wait: raise "
            "train_batch_size, lower rollout_batch_size, or take fewer workers",
            cluster.rollout_workers,
            batches,
        )
    build = partial(make_worker_state, run.config, run.team, *run.envs)
    if cluster.engine == "ray":
        from llm_decpomdp.algorithms.rollout_workers.ray_workers import RayRolloutWorkers

        with raise_run_errors():
            return RayRolloutWorkers(
                build,
                cluster.rollout_workers,
                cluster.max_retries,
                samplers,
                address=cluster.address,
                trusted_network=cluster.trusted_network,
                cpus=cluster.worker_cpus,
                gpus=cluster.worker_gpus,
            )
    if algorithm.rollout.in_flight:
        from llm_decpomdp.algorithms.rollout_workers.in_flight import InFlightWorkers

        return InFlightWorkers(build, cluster.rollout_workers, cluster.max_retries, samplers)
    from llm_decpomdp.algorithms.rollout_workers.process_workers import ProcessRolloutWorkers

    return ProcessRolloutWorkers(build, cluster.rollout_workers, cluster.max_retries, samplers)


def make_worker_state(
    config: Config, team: TeamSpec, train_env: DecPOMDPEnv, eval_env: DecPOMDPEnv
) -> WorkerState:
    """Build the state of a worker: the run's environments, and its team again, placed on the worker's devices."""
    # Called in the worker: each loads its own copy of the models, and keeps its kernels to the end.
    if config.learner.deterministic:
        use_deterministic_kernels()
    placed = replace(team, policies=in_worker(config, team.policies))
    policies = load_policies(config, (train_env, eval_env), placed)
    return WorkerState(train_env, eval_env, policies)
