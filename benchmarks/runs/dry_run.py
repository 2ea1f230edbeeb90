"""The work and the cost of a training, without doing it: `llm-decpomdp train --dry-run`."""

from __future__ import annotations

from collections.abc import Iterator

from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.options import start_cost
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.runs.resolved import resolve
from llm_decpomdp.benchmarks.runs.train import new_folder
from llm_decpomdp.env import DecPOMDPEnv


def dry_run(config: Config, name: str) -> Iterator[str]:
    """Check a configuration, and say in lines what a run of it would cost; its data is read for that.

    Args:
        config: The configuration.
        name: Its name.

    Raises:
        ConfigError: If the folder holds another run, no policy can be trained, or this machine lacks a device;
            and as of `resolve`.
        RunError: If the data cannot be loaded.
    """
    run = resolve(config)
    config, specs = run.config, run.team.policies
    teams.check_devices(config, specs)
    folder = new_folder(config, name)
    updates = len(run.batches)
    training = start_cost(config).scaled(sum(map(len, run.batches)))
    episodes = len(run.eval_starts) * run.trainer.evaluations(updates)
    players = [specs[policy] for policy in run.team.agents.values()]
    tokens = sum(spec.max_new_tokens for spec in players if spec.name)
    yield f"{config.algorithm.name}, {config.algorithm.plan}, on {config.env.id}: {run.team.models}"
    yield f"training: {_data(run.train_env)}"
    yield f"evaluations: {_data(run.eval_env)}"
    yield (
        f"{updates:,} updates: {training.joint_samples:,} joint samples, {training.completions * tokens:,} "
        f"tokens; {episodes:,} episodes of evaluations, {episodes * config.env.num_turns * tokens:,} tokens"
    )
    yield "Tokens are upper bounds: every completion as long as its limit, every episode to its horizon."
    yield f"run folder: {folder}"
    yield "Models were not loaded, and nothing was written."


def _data(env: DecPOMDPEnv) -> str:
    data = env.metadata["data"]
    stand_in = ", a stand-in" if data["stand_in"] else ""
    return f"{data['rows']} problems of {data['name']} {data['split']} ({data['source']}){stand_in}"
