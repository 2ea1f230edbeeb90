"""An episode in the terminal, with a person in it or without."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from llm_decpomdp.agents.scripted import Gold, RandomText
from llm_decpomdp.benchmarks.errors import ConfigError, RunError
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.naming import unknown
from llm_decpomdp.policy import Policy
from llm_decpomdp.registry import make, takes

END = "."
"""The line that ends a typed answer."""


def play_episode(
    env_id: str,
    *,
    agent: str | None,
    partner: str,
    policy: str | None,
    task_id: str | None,
    seed: int | None,
    num_turns: int | None,
    num_agents: int | None,
    source: str,
    files: Sequence[Path],
) -> None:
    """Play an episode in the terminal.

    Args:
        env_id: The environment.
        agent: The agent whose answers are typed, or read from `files`; `None` for the last one.
        partner: Who the others are: `gold`, `random`, or a model as `load_policy` takes it.
        policy: Who all agents are, as `partner`; nothing is typed then. `None` for a person among partners.
        task_id: The problem; `None` draws one.
        seed: Decides the drawn problem.
        num_turns: Turns of the episode; `None` for the environment's own number.
        num_agents: Size of the team; `None` for the environment's own.
        source: Where the problems come from.
        files: Answers of the first turns; later ones are typed.

    Raises:
        ConfigError: If an argument is wrong.
        RunError: If the data or the model cannot be loaded.
    """
    if policy is not None and (agent is not None or files):
        raise ConfigError("--policy plays all agents: leave out --agent and --file")
    try:
        team_size = {} if num_agents is None else {"num_agents": num_agents}
        turns = {} if num_turns is None else {"num_turns": num_turns}
        data = {"source": source} if source != "auto" or takes(env_id, "source") else {}
        env = make(env_id, **data, **turns, **team_size)
    except (ValueError, TypeError, KeyError, ImportError) as error:
        raise ConfigError(str(error.args[0])) from None
    typing = env.possible_agents[-1] if agent is None else agent
    if typing not in env.possible_agents:
        raise ConfigError(unknown("agent", typing, env.possible_agents))
    others = [other for other in env.possible_agents if policy is not None or other != typing]
    team = _policies(env, others, policy or partner, seed)
    try:
        options = None if task_id is None else {"task_id": task_id}
        observations, _ = env.reset(seed=seed, options=options)
    except (KeyError, ValueError) as error:
        raise ConfigError(str(error.args[0])) from None
    except OSError as error:
        raise RunError(f"cannot load the data of {env_id}: {error}") from error
    if "gold" == (policy or partner):
        _check_references(env, others)
    answers = None if policy is not None else (typing, _answers(typing, files))
    _play(env, observations, team, answers)


def _play(
    env: DecPOMDPEnv,
    observations: Mapping[str, str],
    team: Mapping[str, Policy],
    typed: tuple[str, Iterator[str]] | None,
) -> None:
    """Play to the end, and print everything."""
    env.render_mode = "human"
    env.render()
    total = 0.0
    while env.agents:
        actions = {agent: policy.act(observations[agent]) for agent, policy in team.items()}
        if typed is not None:
            agent, answers = typed
            actions[agent] = next(answers)
        observations, rewards, *_ = env.step(actions)
        total += next(iter(rewards.values()))
    print(f"episode over: total reward {total:.2f} in {len(env.episode.turns)} turns")


def _policies(
    env: DecPOMDPEnv, agents: Sequence[str], name: str, seed: int | None
) -> dict[str, Policy]:
    if name == "gold":
        return {agent: Gold(env, agent) for agent in agents}
    if name == "random":
        return dict.fromkeys(agents, RandomText(seed or 0))
    from llm_decpomdp.agents.loading import load_policy

    try:
        return dict.fromkeys(agents, load_policy(name))
    except (OSError, ImportError, ValueError) as error:
        raise RunError(f"cannot load the policy {name!r}: {error}") from error


def _check_references(env: DecPOMDPEnv, agents: Sequence[str]) -> None:
    """Before anything is shown: gold can only play what the data has an answer to."""
    try:
        for agent in agents:
            env.reference(agent)
    except LookupError as error:
        raise ConfigError(
            f"{error.args[0]}: take a model with --partner MODEL or --policy MODEL, or play alone with "
            "--num-agents 1"
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
