"""The trainer of a run, by its configuration: rollout workers, servers that sample, sources and callbacks."""

from __future__ import annotations

import logging
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from llm_decpomdp.agents.saved_team import load_saved_team
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.rewards.comparisons import RewardModelOptions
from llm_decpomdp.algorithms.training.trainer_options import PASSES
from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError, raise_run_errors, writing
from llm_decpomdp.benchmarks.config.placement import in_worker, parts
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.runs.setup import ResolvedRun, arrange, resolve
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.policy import Team
from llm_decpomdp.utils.storage import RunFolder

if TYPE_CHECKING:
    from llm_decpomdp.agents.models.causal_lm import CausalLM
    from llm_decpomdp.agents.remote.sampler import RemoteSampler
    from llm_decpomdp.agents.remote.server import Server
    from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
    from llm_decpomdp.algorithms.rollout_workers.rollout_worker import (
        RolloutWorker,
        WeightSync,
        WorkerState,
    )
    from llm_decpomdp.algorithms.training.checkpoint_manager import CheckpointManager
    from llm_decpomdp.algorithms.training.rollout_source import RolloutSource
    from llm_decpomdp.algorithms.training.run_log import RunLog
    from llm_decpomdp.algorithms.training.sft import SFTPhase
    from llm_decpomdp.algorithms.training.sft_data import Demonstration
    from llm_decpomdp.algorithms.training.trainer import Trainer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingParts:
    """The trainer of a run, and the two callbacks that the run asks for results."""

    trainer: Trainer
    checkpoints: CheckpointManager
    log: RunLog


def make_training(
    run: ResolvedRun,
    team: Team,
    folder: RunFolder,
    demonstrations: Sequence[Demonstration] | None,
) -> TrainingParts:
    """Build the trainer of a run.

    Args:
        run: The run.
        team: A policy for each agent.
        folder: The run folder.
        demonstrations: Those of the warm start, none if it is done or samples its own; `None` without one.

    Raises:
        RunError: If the environment, the team and the configuration do not fit together.
    """
    from llm_decpomdp.algorithms.rollout_workers.rollout_worker import (
        LocalRolloutWorker,
        WeightSync,
        WorkerState,
    )
    from llm_decpomdp.algorithms.training.callbacks import TrainerCallback
    from llm_decpomdp.algorithms.training.checkpoint_manager import CheckpointManager
    from llm_decpomdp.algorithms.training.rollout_source import PeriodicEvaluation
    from llm_decpomdp.algorithms.training.run_log import RunLog
    from llm_decpomdp.algorithms.training.trainer import Trainer

    algorithm, env = run.config.algorithm, run.config.env
    if algorithm.rollout.plan == "chain" and env.discount < 1 and env.num_turns > 1:
        logger.warning(
            "env.discount=%s has no effect on learning in a chain, which credits each turn with its own "
            "reward; set algorithm.rollout.mode=tree for returns over turns",
            env.discount,
        )
    try:
        phase = None if demonstrations is None else _sft_phase(run, team, demonstrations)
        declared = ALGORITHMS[algorithm.name].configure(**algorithm.own_options)
        learner = declared.make_learner(team, run.learner, run.config.seed)
        rollout_worker = make_rollout_worker(run, team)
        workers = WeightSync(
            rollout_worker or LocalRolloutWorker(WorkerState(run.train_env, run.eval_env, team)),
            learner.policies,
            # Steps of the warm start change weights, too, and versions may only grow.
            lambda: learner.updates + (phase.steps if phase else 0),
        )
        source = _source(run, team, learner, workers, can_prefetch=rollout_worker is not None)
        checkpoints, log = CheckpointManager(folder), RunLog(folder)
        callbacks: list[TrainerCallback] = [checkpoints, log]
        if phase is not None:
            callbacks.append(phase)
        callbacks.append(PeriodicEvaluation(run.eval_env, workers, run.eval_starts))
        trainer = Trainer(run.train_env, team, learner, source, run.trainer, callbacks)
    except (ValueError, TypeError) as error:
        raise RunError(str(error)) from error
    return TrainingParts(trainer, checkpoints, log)


def _source(
    run: ResolvedRun,
    team: Team,
    learner: BaseLearner,
    workers: WeightSync,
    *,
    can_prefetch: bool,
) -> RolloutSource:
    """Build the source of the rollouts of a run."""
    from llm_decpomdp.algorithms.sources import make_source
    from llm_decpomdp.algorithms.training.rollout_source import (
        SampledSource,
        StoredSource,
    )

    options = run.trainer
    source: RolloutSource
    if run.pairs:
        from llm_decpomdp.algorithms.preferences.stored import add_tokens

        source = StoredSource(arrange(run.config, add_tokens(run.pairs, team)))
    else:
        problems = run.problems if options.refill or options.curriculum else ()
        source = SampledSource(
            run.train_env, team, workers, learner, options, run.batches, problems
        )
    return make_source(
        source,
        run.train_env,
        team,
        learner,
        options,
        problems=run.problems,
        opponents=_load_opponents(run),
        can_prefetch=can_prefetch,
    )


def _load_opponents(run: ResolvedRun) -> Team | None:
    """Load the team that pairs are made with, if the run names one."""
    folder = run.config.algorithm.named_comparator
    if folder is None:
        return None
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


def _sft_phase(run: ResolvedRun, team: Team, demonstrations: Sequence[Demonstration]) -> SFTPhase:
    """Build the warm start of a run; errors as of its class."""
    from llm_decpomdp.algorithms.training.expert_iteration import ExpertIteration
    from llm_decpomdp.algorithms.training.sft import SupervisedTraining

    options, limit, seed = run.config.warm_start, run.learner.max_grad_norm, run.config.seed
    if options.source == PASSES:
        problems = run.sampled_problems
        return ExpertIteration(
            run.train_env, team, problems, options, max_grad_norm=limit, seed=seed
        )
    return SupervisedTraining(team, demonstrations, options, max_grad_norm=limit, seed=seed)


def make_rollout_worker(run: ResolvedRun, team: Team) -> RolloutWorker | None:
    """Build the rollout worker of a run; `None` where the process that learns samples everything itself.

    Args:
        run: The run.
        team: Its team, whose policies servers sample for where the run says so; errors as of `attach_samplers`.
    """
    cluster, algorithm = run.config.cluster, run.config.algorithm
    samplers = attach_samplers(run, team) if run.config.sampler.engine == "vllm" else {}
    if not cluster.rollout_workers:
        if not samplers:
            return None
        from llm_decpomdp.algorithms.rollout_workers.async_server import AsyncServerRollouts
        from llm_decpomdp.algorithms.rollout_workers.rollout_worker import WorkerState

        return AsyncServerRollouts(WorkerState(run.train_env, run.eval_env, team), samplers)
    rollout_batches = -(-algorithm.prompts_per_update // (algorithm.rollout.starts_per_bundle or 1))
    if rollout_batches < cluster.rollout_workers:
        logger.warning(
            "%d rollout workers share updates of %d bundles, so some of them always wait: take more starts an "
            "update (prompts_per_update), smaller bundles (starts_per_bundle), or fewer workers",
            *(cluster.rollout_workers, rollout_batches),
        )
    build = partial(make_worker_state, run.config, run.train_env, run.eval_env, run.team)
    if cluster.engine == "ray":
        from llm_decpomdp.algorithms.rollout_workers.ray_workers import RayRolloutWorkers

        with raise_run_errors():
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
            f"inference.engine=vllm works with one process that learns, and there are {processes.world_size()}: "
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


FILE = "reward_model.pt"
"""Name of the file in the folder of a reward model."""


class Trained(NamedTuple):
    """A reward model that was written."""

    path: Path
    report: dict[str, float]
    """The `report` of the model."""


def train_reward_model(
    config: Config, pairs: Path, output: Path, options: RewardModelOptions
) -> Trained:
    """Train a reward model with the frozen model of a configuration's team, and write it.

    Args:
        config: The configuration whose runs are to learn from it.
        pairs: A JSONL file that `export --pairs` has written.
        output: The folder of its file.
        options: How to train it; the seed is the configuration's.

    Raises:
        ConfigError: If there is a reward model already, or the pairs or the configuration do not fit.
        RunError: If the model gives no features, or the file cannot be written.
    """
    from llm_decpomdp.algorithms.rewards.comparisons import read_comparisons
    from llm_decpomdp.algorithms.rewards.reward_model import fit_reward_model
    from llm_decpomdp.algorithms.rewards.scorer import readers

    path = output / FILE
    if path.exists():
        raise ConfigError(f"{path} is there already: name another --output")
    run = resolve(replace(config, algorithm=replace(config.algorithm, reward_model=None)))
    agents = run.train_env.possible_agents
    try:
        comparisons = read_comparisons(pairs, agents, run.config.env.id)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    team = teams.load(run.config, (run.train_env, run.eval_env), run.team)
    reader = next(readers(team), None)
    if reader is None:
        raise RunError("no model of the team gives features: a reward model reads with one")
    try:
        model = fit_reward_model(
            comparisons, agents, reader, replace(options, seed=run.config.seed)
        )
    except ValueError as error:
        raise RunError(str(error)) from error
    with writing(output):
        output.mkdir(parents=True, exist_ok=True)
        model.save(path)
    return Trained(path, model.report)
