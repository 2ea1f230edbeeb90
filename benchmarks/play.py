"""An episode with a person in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from llm_decpomdp.agents.scripted import Gold
from llm_decpomdp.benchmarks.errors import ConfigError, RunError
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.naming import unknown
from llm_decpomdp.policy import Policy
from llm_decpomdp.registry import make

END = "."
"""The line that ends a typed answer."""


def play_episode(
    env_id: str,
    *,
    agent: str,
    partner: str,
    task_id: str | None,
    seed: int | None,
    num_turns: int,
    num_agents: int | None,
    source: str,
    files: Sequence[Path],
) -> None:
    """Play an episode in the terminal.

    Args:
        env_id: The environment.
        agent: The agent whose answers are typed, or read from `files`.
        partner: Who the others are: `gold`, or a model as `load_policy` takes it.
        task_id: The problem; `None` draws one.
        seed: Decides the drawn problem.
        num_turns: Turns of the episode.
        num_agents: Size of the team; `None` for the environment's own.
        source: Where the problems come from.
        files: Answers of the first turns; later ones are typed.

    Raises:
        ConfigError: If an argument is wrong.
        RunError: If the data or the model cannot be loaded.
    """
    try:
        team_size = {} if num_agents is None else {"num_agents": num_agents}
        env = make(env_id, num_turns=num_turns, source=source, **team_size)
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(str(error.args[0])) from None
    if agent not in env.possible_agents:
        raise ConfigError(unknown("agent", agent, env.possible_agents))
    others = [other for other in env.possible_agents if other != agent]
    team = _partners(env, others, partner)
    answers = _answers(agent, files)
    try:
        options = None if task_id is None else {"task_id": task_id}
        observations, _ = env.reset(seed=seed, options=options)
    except (KeyError, ValueError) as error:
        raise ConfigError(str(error.args[0])) from None
    except OSError as error:
        raise RunError(f"cannot load the data of {env_id}: {error}") from error
    if partner == "gold":
        _check_references(env, others)
    env.render_mode = "human"
    env.render()
    total = 0.0
    while env.agents:
        actions = {other: team[other].act(observations[other]) for other in others}
        actions[agent] = next(answers)
        observations, rewards, *_ = env.step(actions)
        total += rewards[agent]
    print(f"episode over: total reward {total:.2f} in {len(env.episode.turns)} turns")


def _partners(env: DecPOMDPEnv, others: Sequence[str], partner: str) -> dict[str, Policy]:
    if partner == "gold":
        return {other: Gold(env, other) for other in others}
    from llm_decpomdp.agents.loading import load_policy

    try:
        return dict.fromkeys(others, load_policy(partner))
    except (OSError, ImportError, ValueError) as error:
        raise RunError(f"cannot load the partner {partner!r}: {error}") from error


def _check_references(env: DecPOMDPEnv, others: Sequence[str]) -> None:
    """Before anything is shown: gold can only play what the data has an answer to."""
    try:
        for other in others:
            env.reference(other)
    except LookupError as error:
        raise ConfigError(
            f"{error.args[0]}: take a model with --partner MODEL, or play alone with --num-agents 1"
        ) from None


def _answers(agent: str, files: Sequence[Path]) -> Iterator[str]:
    for path in files:
        try:
            yield path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read an answer from {path}: {error}") from None
    while True:
        print(f"Your answer as {agent}; end it with a line that is a single dot:")
        yield _typed()


def _typed() -> str:
    lines: list[str] = []
    for line in sys.stdin:
        if line.rstrip("\r\n") == END:
            return "".join(lines)
        lines.append(line)
    if not lines:
        raise RunError("the input ended before the episode did")
    return "".join(lines)
