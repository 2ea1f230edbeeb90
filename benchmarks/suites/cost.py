"""The cost of a suite's jobs, before they run: docs/experiments.md has the formulas."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.table import Table

from llm_decpomdp.agents import PolicySpec
from llm_decpomdp.algorithms.rollouts.checks import Cost
from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.baselines import EvalConfig, find_baseline, is_baseline
from llm_decpomdp.benchmarks.runs.data import same_source, schedule
from llm_decpomdp.benchmarks.runs.setup import team_spec, trainer_options
from llm_decpomdp.benchmarks.runs.setup_checks import start_cost
from llm_decpomdp.benchmarks.suites.job import Job
from llm_decpomdp.benchmarks.suites.suite import Suite
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.utils.extras import missing_models

LEARNING = 2
"""Approximate cost of sampling plus training on a token, relative to sampling it."""

START = 2000
"""Approximate cost of starting a process and loading models, in sampled tokens."""

FROZEN, TRAINED = 4, 16
"""Bytes for each parameter: of a float32 weight; with its gradient and the two moments of AdamW."""

SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)([bm])(?![a-z\d])", re.IGNORECASE)
"""The number of parameters in a model's name, as in `Qwen2.5-Coder-3B` or `smollm2-135m-instruct`."""

Limits = Mapping[str, int]


@dataclass(frozen=True)
class JobCost:
    """Upper bounds of the cost of a job, with full completions and episodes."""

    data: str
    """Description of the problems, with a note on stand-ins."""
    updates: int
    joint_samples: int
    """Joint samples of training, which are steps of the environment."""
    training_tokens: int
    """Tokens sampled in training, including its evaluations."""
    episodes: int
    evaluation_tokens: int
    gigabytes: float | None = 0.0
    """Memory of weights, gradients and optimizer states, without activations; `None` if a name has no size."""

    @property
    def work(self) -> float:
        """Relative cost of the job, in sampled tokens."""
        return (START if self.evaluation_tokens else 1) + self.tokens

    @property
    def tokens(self) -> int:
        """All tokens, in units of a token that is only sampled."""
        return self.evaluation_tokens + LEARNING * self.training_tokens


def job_cost(job: Job) -> JobCost:
    """Compute the cost of a job from its data, without loading models.

    Raises:
        ConfigError: If the arm's method does not fit its environment, its team has no trainable policy, or this
            machine lacks a device or the packages for language models.
        ValueError: If the data cannot be read; also `OSError`.
    """
    config, arm = job.config, job.arm
    setting = EvalConfig.from_config(config)
    env, limits, specs = _played_env(setting, arm.method)
    tasks = len(env.tasks.tasks[: arm.tasks])
    episodes = tasks * arm.samples
    tokens = episodes * _episode_tokens(env, limits)
    size = gigabytes(specs, trained=arm.trains)
    data = env.metadata["data"]
    text = f"{data['rows']} problems of {data['name']} {data['split']} ({data['source']})"
    if data["stand_in"]:
        text += ", a stand-in"
        if (config.dataset.eval_source or config.dataset.source) == "auto":
            text += ": the benchmark's own problems are not available, so the counts are of the stand-in"
    cost = JobCost(text, 0, 0, 0, episodes, tokens, size)
    if not arm.trains:
        return cost
    teams.check_trainable(team_spec(config, env.possible_agents).policies)
    training_env = job.training_config.make_train_env(same_source(config, env))
    batches = schedule(config, [task.task_id for task in training_env.tasks.tasks])
    starts = (1 + config.algorithm.rollout.max_resample_rounds) * sum(map(len, batches))
    training: Cost = start_cost(config).times(starts)
    # The evaluations during a training sample too.
    held_out = len(env.tasks.tasks[: config.evaluation.num_tasks])
    own_episodes = held_out * trainer_options(config).evaluations(len(batches))
    return replace(
        cost,
        updates=len(batches),
        joint_samples=training.joint_samples,
        training_tokens=training.completions * sum(limits.values())
        + own_episodes * _episode_tokens(env, limits),
    )


def _episode_tokens(env: DecPOMDPEnv, limits: Limits) -> int:
    answers: Mapping[str, int] = getattr(env, "answers_per_episode", {})
    return sum(limit * answers.get(agent, env.num_turns) for agent, limit in limits.items())


def estimate_costs(jobs: Sequence[Job]) -> tuple[dict[str, JobCost], dict[str, str]]:
    """Return the cost of one job of each arm, or the error that prevents its computation, by the names of arms."""
    costs: dict[str, JobCost] = {}
    reasons: dict[str, str] = {}
    for job in jobs:
        name = job.arm.name
        if name in costs or name in reasons:
            continue
        try:
            costs[name] = job_cost(job)
        except (ValueError, OSError, ImportError) as error:
            reasons[name] = str(error)
    return costs, reasons


def gigabytes(specs: Iterable[PolicySpec], *, trained: bool) -> float | None:
    """Estimate the memory of weights, gradients and optimizer states of policies, in units of 10^9 bytes.

    Adapters are ignored, and their base model counts once; `None` if the name of a model has no size.

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


def _played_env(
    setting: EvalConfig, method: str
) -> tuple[DecPOMDPEnv, Limits, Sequence[PolicySpec]]:
    """Return the environment of a method, the token limits of a turn, and the policies."""
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


FILE_WIDTH = 140

COLUMNS = (
    *("arm", "seeds", "model", "updates", "joint samples", "tokens of training", "episodes"),
    *("tokens of evaluation", "GB of weights"),
)


def show_costs(
    suite: Suite, jobs: Sequence[Job], tokens_per_second: float | None = None
) -> tuple[dict[str, JobCost], dict[str, str]]:
    """Print the cost of every arm over all its seeds, and its data.

    Args:
        suite: The suite.
        jobs: Its jobs, or some of them.
        tokens_per_second: Sampling speed of the machine, for hours.

    Returns:
        The costs and errors of `estimate_costs`.
    """
    costs, reasons = estimate_costs(jobs)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH)
    table = Table(title=f"{suite.name}: {suite.description}", title_justify="left")
    columns = (*COLUMNS, "hours") if tokens_per_second else COLUMNS
    for column in columns:
        table.add_column(column, justify="left" if column in ("arm", "model") else "right")
    sample = {job.arm.name: job for job in jobs}
    data: dict[str, list[str]] = {}
    totals = [0.0] * 6
    for name, job in sample.items():
        seeds, cost = len(job.arm.seeds), costs.get(name)
        model = "" if job.arm.method in ("gold", "random") else job.config.model.name
        if cost is None:
            table.add_row(name, str(seeds), model, *["?"] * (len(columns) - 3))
            continue
        data.setdefault(cost.data, []).append(name)
        hours = cost.tokens / (3600 * tokens_per_second) if tokens_per_second else 0.0
        numbers = [
            *(seeds * cost.updates, seeds * cost.joint_samples, seeds * cost.training_tokens),
            *(seeds * cost.episodes, seeds * cost.evaluation_tokens, seeds * hours),
        ]
        totals = [total + number for total, number in zip(totals, numbers, strict=True)]
        memory = "?" if cost.gigabytes is None else f"{cost.gigabytes:.1f}" * bool(cost.gigabytes)
        table.add_row(name, str(seeds), model, *_count_cells(numbers, memory, len(columns)))
    table.add_section()
    table.add_row("total", str(len(jobs)), "", *_count_cells(totals, "", len(columns)))
    console.print(table)
    console.print(
        "Tokens are upper bounds, for completions of the maximum length and full episodes. Memory is for weights, "
        "gradients and AdamW in float32, without activations."
    )
    for text, names in data.items():
        console.print(f"data of {', '.join(names)}: {text}", markup=False, soft_wrap=True)
    for name, reason in reasons.items():
        console.print(f"PROBLEM: {name}: {reason}", markup=False, soft_wrap=True)
    console.print("No model was loaded, and nothing was written.")
    return costs, reasons


def _count_cells(numbers: Sequence[float], memory: str, columns: int) -> list[str]:
    """Return counts, memory and hours as cells, without hours if the table has no such column."""
    *counts, hours = numbers
    # The hours are the last cell, which is cut off where no rate is given.
    return [*(f"{count:,.0f}" for count in counts), memory, f"{hours:,.1f}"][: columns - 3]
