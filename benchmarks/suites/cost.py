"""The cost of a suite's jobs, before they run: docs/evaluation.md has the formulas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from llm_decpomdp.agents.specs import PolicySpec
from llm_decpomdp.algorithms.rollouts.cost import Cost
from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.extras import missing_models
from llm_decpomdp.benchmarks.config.load import start_cost
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.evaluation.baselines import Setting, find_baseline, is_baseline
from llm_decpomdp.benchmarks.runs.manifest import same_source
from llm_decpomdp.benchmarks.runs.setup import schedule, trainer_options
from llm_decpomdp.benchmarks.suites.job import Job
from llm_decpomdp.env import DecPOMDPEnv

LEARNING = 2
"""Approximate cost of sampling plus training on a token, relative to sampling it."""

START = 2000
"""Approximate cost of starting a process and loading models, in sampled tokens."""

FROZEN, TRAINED = 4, 16
"""Bytes for each parameter: of a float32 weight; with its gradient and the two moments of AdamW."""

SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)([bm])(?![a-z\d])", re.IGNORECASE)
"""The number of parameters in a model's name, as in `Qwen2.5-Coder-3B` or `smollm2-135m-instruct`."""

Limits = Mapping[str, int]
"""Token limits of a completion, by agent that has a model."""


@dataclass(frozen=True)
class JobCost:
    """The highest cost of a job: that of episodes which all last to their horizon."""

    data: str
    """Description of the problems, with a note where they are stand-ins."""
    updates: int
    joint_samples: int
    """Joint samples of training: steps of the environment."""
    training_tokens: int
    """Tokens sampled in training, its own evaluations included; at most."""
    episodes: int
    """Episodes of the evaluation that follows."""
    evaluation_tokens: int
    """Tokens sampled in that evaluation, at most."""
    gigabytes: float | None = 0.0
    """Memory of weights, gradients and optimizer states, no activations; `None` where a name tells no size."""

    @property
    def work(self) -> float:
        """Cost to compare jobs by, in sampled tokens."""
        start = START if self.evaluation_tokens else 1
        return start + self.tokens

    @property
    def tokens(self) -> int:
        """All tokens, in units of one that is only sampled."""
        return self.evaluation_tokens + LEARNING * self.training_tokens


def job_cost(job: Job) -> JobCost:
    """Compute the cost of a job; its data is read for that, and no model is loaded.

    Raises:
        ConfigError: If the cell's method does not fit its environment, its team has nothing to learn with, or
            this machine lacks a device or the packages of language models.
        ValueError: If the data cannot be read; also `OSError`.
    """
    config, cell = job.config, job.cell
    setting = Setting.of(config)
    env, limits, specs = _played(setting, cell.method)
    tasks = len(env.tasks.tasks[: cell.tasks])
    episodes = tasks * cell.samples
    tokens = episodes * env.num_turns * sum(limits.values())
    size = gigabytes(specs, trained=cell.trained)
    cost = JobCost(_about(env, config), 0, 0, 0, episodes, tokens, size)
    if not cell.trained:
        return cost
    teams.check_trainable(teams.team_spec(config, env.possible_agents).policies)
    training_env = config.make_train_env(
        same_source(config, env)
    )  # from where the data of `env` is
    batches = schedule(config, [task.task_id for task in training_env.tasks.tasks])
    starts = (1 + config.algorithm.refill) * sum(map(len, batches))
    training: Cost = start_cost(config).times(starts)
    held_out = len(env.tasks.tasks[: config.evaluation.num_tasks])
    own_episodes = held_out * trainer_options(config).evaluations(len(batches))
    completions = training.completions + own_episodes * env.num_turns
    return replace(
        cost,
        updates=len(batches),
        joint_samples=training.joint_samples,
        training_tokens=completions * sum(limits.values()),
    )


def costs_of(jobs: Sequence[Job]) -> tuple[dict[str, JobCost], dict[str, str]]:
    """Return the cost of one job of each cell, or else the reason why it is not known, by the names of cells."""
    costs: dict[str, JobCost] = {}
    reasons: dict[str, str] = {}
    for job in jobs:
        name = job.cell.name
        if name in costs or name in reasons:
            continue
        try:
            costs[name] = job_cost(job)
        except (ValueError, OSError, ImportError) as error:
            reasons[name] = str(error)
    return costs, reasons


def gigabytes(specs: Iterable[PolicySpec], *, trained: bool) -> float | None:
    """Estimate the memory of weights, gradients and optimizer states of policies, in units of 10^9 bytes.

    Adapters are counted as nothing, and their base once; `None` where the name of a model tells no size.

    Examples:
        >>> gigabytes([PolicySpec(name="Qwen/Qwen2.5-Coder-3B")] * 2, trained=True)
        96.0
    """
    models = [spec for spec in specs if spec.kind == "model"]
    bases = {spec.name for spec in models if spec.lora is not None}
    costs = [(name, FROZEN) for name in bases] + [
        (spec.name, TRAINED if trained and spec.can_be_trained else FROZEN)
        for spec in models
        if spec.lora is None
    ]
    total = 0.0
    for name, bytes_each in costs:
        size = SIZE.search(name or "")
        if size is None:
            return None
        total += float(size[1]) * (1.0 if size[2] in "bB" else 1e-3) * bytes_each
    return total


def _played(setting: Setting, method: str) -> tuple[DecPOMDPEnv, Limits, Sequence[PolicySpec]]:
    """Return the environment that a method plays, the token limits of a turn, and the policies.

    Raises:
        ConfigError: If the method does not fit the environment, or this machine lacks a device or the packages
            of language models.
    """
    if is_baseline(method):
        baseline = find_baseline(method, setting)
        _check_packages(baseline.config is not None)
        return baseline.env, baseline.limits, baseline.specs
    env = setting.env
    names = teams.agents_of(setting.config, env.possible_agents)
    specs = teams.policies_of(setting.config, names)
    _check_packages(any(spec.kind == "model" for spec in specs.values()))
    teams.check_devices(setting.config, specs)
    spec_of = {agent: specs[name] for agent, name in names.items()}
    models = {a: spec for a, spec in spec_of.items() if spec.kind in ("model", "endpoint")}
    limits = {agent: spec.max_new_tokens for agent, spec in models.items()}
    return env, limits, list(specs.values())


def _check_packages(models: bool) -> None:
    reason = missing_models() if models else None
    if reason is not None:
        raise ConfigError(reason)


def _about(env: DecPOMDPEnv, config: Config) -> str:
    """Describe the problems, and say where they are not those that were asked for."""
    data = env.metadata["data"]
    text = f"{data['rows']} problems of {data['name']} {data['split']} ({data['source']})"
    if not data["stand_in"]:
        return text
    automatic = (config.dataset.eval_source or config.dataset.source) == "auto"
    return f"{text}, a stand-in" + (
        ": the benchmark's own cannot be reached from here, so the counts are of the stand-in"
        * automatic
    )
