"""The rollout worker of a run, by its configuration."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.gpu_placement import in_worker
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.runs.failures import as_run_errors
from llm_decpomdp.benchmarks.runs.samplers import attach_samplers
from llm_decpomdp.benchmarks.runs.setup import ResolvedRun
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.policy import Team

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.rollout_workers.rollout_worker import RolloutWorker, WorkerState

logger = logging.getLogger(__name__)


def make_rollout_worker(run: ResolvedRun, team: Team) -> RolloutWorker | None:
    """Build the rollout worker of a run; `None` where the process that learns plays everything itself.

    Args:
        run: The run.
        team: Its team, whose policies are let be sampled at servers where the run says so; errors as of
            `attach_samplers`.
    """
    cluster, algorithm = run.config.cluster, run.config.algorithm
    samplers = attach_samplers(run, team) if run.config.sampler.served else {}
    if not cluster.rollout_workers:
        if not samplers:
            return None
        from llm_decpomdp.algorithms.rollout_workers.async_server import AsyncServerRollouts
        from llm_decpomdp.algorithms.rollout_workers.rollout_worker import WorkerState

        return AsyncServerRollouts(WorkerState(run.train_env, run.eval_env, team), samplers)
    rollout_batches = -(-algorithm.prompts_per_update // (algorithm.starts_per_bundle or 1))
    if rollout_batches < cluster.rollout_workers:
        logger.warning(
            "%d rollout workers share updates of %d bundles, so some of them always wait: take more starts an "
            "update (prompts_per_update), smaller bundles (starts_per_bundle), or fewer workers",
            *(cluster.rollout_workers, rollout_batches),
        )
    build = partial(make_worker_state, run.config, run.train_env, run.eval_env, run.team)
    if cluster.engine == "ray":
        from llm_decpomdp.algorithms.rollout_workers.ray_workers import RayRolloutWorkers

        with as_run_errors():
            return RayRolloutWorkers(
                *(build, cluster.rollout_workers, cluster.max_redo, samplers),
                address=cluster.address,
                trusted_network=cluster.trusted_network,
                cpus=cluster.worker_cpus,
                gpus=cluster.worker_gpus,
            )
    from llm_decpomdp.algorithms.rollout_workers.process_workers import ProcessRolloutWorkers

    return ProcessRolloutWorkers(build, cluster.rollout_workers, cluster.max_redo, samplers)


def make_worker_state(
    config: Config, train_env: DecPOMDPEnv, eval_env: DecPOMDPEnv, team: teams.TeamSpec
) -> WorkerState:
    """Build the state of a worker: the run's environments, and its team again, as `in_worker` places it."""
    from llm_decpomdp.algorithms.rollout_workers.rollout_worker import WorkerState

    placed = replace(team, policies=in_worker(config, team.policies))
    return WorkerState(train_env, eval_env, teams.load(config, (train_env, eval_env), placed))
