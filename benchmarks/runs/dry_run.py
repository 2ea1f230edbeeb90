"""What a training would do and cost, without doing it: `llm-decpomdp train --dry-run`."""

from __future__ import annotations

from collections.abc import Iterator

from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.options import schedule, start_cost, trainer_options
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.config.trackers import require_packages
from llm_decpomdp.benchmarks.runs import train as run
from llm_decpomdp.benchmarks.runs.manifest import models
from llm_decpomdp.env import DecPOMDPEnv


def dry_run(config: Config, name: str) -> Iterator[str]:
    """Check a configuration, and say in lines what a run of it would cost; its data is read for that.

    Args:
        config: What to do.
        name: The configuration's name.

    Raises:
        ConfigError: If the folder holds another run, no policy can be trained, or this machine lacks a device.
        RunError: If the data cannot be loaded.
    """
    require_packages(config.output.trackers)
    train_env, eval_env = run.load_envs(config)
    agents = train_env.possible_agents
    teams.check_trainable(config, agents)
    specs = teams.policies_of(config, names := teams.agents_of(config, agents))
    teams.check_devices(config, specs)
    folder = run.new_folder(config, name)
    batches = schedule(config, [task.task_id for task in train_env.tasks.tasks])
    training = start_cost(config).scaled(sum(map(len, batches)))
    options = trainer_options(config)
    episodes = len(run.eval_starts(config, eval_env)) * options.evaluations(len(batches))
    tokens = sum(specs[names[agent]].max_new_tokens for agent in agents if specs[names[agent]].name)
    yield f"{config.algorithm.name}, {config.algorithm.plan}, on {config.env.id}: {models(config, agents)}"
    yield f"training: {_data(train_env)}"
    yield f"evaluations: {_data(eval_env)}"
    yield (
        f"{len(batches):,} updates: {training.joint_samples:,} joint samples, {training.completions * tokens:,} "
        f"tokens; {episodes:,} episodes of evaluations, {episodes * config.env.num_turns * tokens:,} tokens"
    )
    yield "Tokens are upper bounds: every completion as long as its limit, every episode to its horizon."
    yield f"run folder: {folder}"
    yield "Models were not loaded, and nothing was written."


def _data(env: DecPOMDPEnv) -> str:
    data = env.metadata["data"]
    stand_in = ", a stand-in" if data["stand_in"] else ""
    return f"{data['rows']} problems of {data['name']} {data['split']} ({data['source']}){stand_in}"
