"""What the jobs of a suite cost, before they are paid for: docs/bench.md has the formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from llm_decpomdp.algorithms.costs import Cost
from llm_decpomdp.benchmarks import teams
from llm_decpomdp.benchmarks.bench.job import Job
from llm_decpomdp.benchmarks.evaluation.baselines import BASELINES, Setting
from llm_decpomdp.benchmarks.options import schedule, start_cost, trainer_options
from llm_decpomdp.benchmarks.schema import Config
from llm_decpomdp.benchmarks.splits import same_source
from llm_decpomdp.env import DecPOMDPEnv

LEARNING = 2
"""How many times the work of sampling a token it is to sample it and to learn from it, about."""

START = 2000
"""The work of starting a process and loading models, in sampled tokens, about."""

Limits = Mapping[str, int]
"""The most tokens of a completion of each agent that has a model."""


@dataclass(frozen=True)
class JobCost:
    """What a job costs at most, as no episode may end before its horizon."""

    data: str
    """The problems that are played, and whether they are the benchmark's own."""
    updates: int
    joint_samples: int
    """Of training: steps of the environment."""
    training_tokens: int
    """Sampled in training, its own evaluations among them; at most."""
    episodes: int
    """Of the evaluation that follows."""
    evaluation_tokens: int
    """Sampled in it, at most."""

    @property
    def work(self) -> float:
        """A size to compare jobs by, in sampled tokens."""
        start = START if self.evaluation_tokens else 1
        return start + self.evaluation_tokens + LEARNING * self.training_tokens


def job_cost(job: Job) -> JobCost:
    """What a job costs; its data is read for that, and no model is loaded.

    Raises:
        ConfigError: If the cell's method does not fit its environment, or its team has nothing to learn with
            or a device that this machine lacks.
        ValueError: If the data cannot be read; also `OSError`.
    """
    config, cell = job.config, job.cell
    setting = Setting.of(config)
    env, limits = _played(setting, cell.method)
    tasks = len(env.tasks.tasks[: cell.tasks])
    episodes = tasks * cell.samples
    found = JobCost(
        _about(env, config), 0, 0, 0, episodes, episodes * env.num_turns * sum(limits.values())
    )
    if not cell.trained:
        return found
    teams.check_trainable(config, env.possible_agents)
    batches = schedule(config, [task.task_id for task in _training_env(config, env).tasks.tasks])
    training: Cost = start_cost(config).times(sum(map(len, batches)))
    held_out = len(env.tasks.tasks[: config.evaluation.num_tasks])
    own_episodes = held_out * trainer_options(config).evaluations(len(batches))
    completions = training.completions + own_episodes * env.num_turns
    return replace(
        found,
        updates=len(batches),
        joint_samples=training.joint_samples,
        training_tokens=completions * sum(limits.values()),
    )


def _training_env(config: Config, played: DecPOMDPEnv) -> DecPOMDPEnv:
    """The environment on the training split, with its data from where that of the evaluation is."""
    return config.make_env(config.dataset.train_split, same_source(played))


def _played(setting: Setting, method: str) -> tuple[DecPOMDPEnv, Limits]:
    """The environment that a method plays, and how much its models may write in a turn.

    Raises:
        ConfigError: If the method does not fit the environment, or this machine lacks a device.
    """
    if method in BASELINES:
        found = BASELINES[method](setting)
        return found.env, found.limits
    env = setting.make_env()
    names = teams.agents_of(setting.config, env.possible_agents)
    specs = teams.policies_of(setting.config, names)
    teams.check_devices(setting.config, specs)
    own = {agent: specs[name] for agent, name in names.items()}
    models = {a: spec for a, spec in own.items() if spec.kind in ("model", "endpoint")}
    return env, {agent: spec.max_new_tokens for agent, spec in models.items()}


def _about(env: DecPOMDPEnv, config: Config) -> str:
    """The problems in words, and plainly where they are not those that were asked for."""
    data = env.metadata["data"]
    text = f"{data['rows']} problems of {data['name']} {data['split']} ({data['source']})"
    if not data["stand_in"]:
        return text
    asked = config.dataset.source == "auto"
    return f"{text}, a stand-in" + (
        ": the benchmark's own cannot be reached from here, so the counts are of the stand-in"
        * asked
    )


def total(costs: Sequence[JobCost]) -> JobCost:
    """The sum over jobs; `data` is that of the first."""
    return JobCost(
        costs[0].data,
        *(
            sum(vars(one)[key] for one in costs)
            for key in (
                "updates",
                "joint_samples",
                "training_tokens",
                "episodes",
                "evaluation_tokens",
            )
        ),
    )
