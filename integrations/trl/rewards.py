"""Rewards of completions: of one agent beside fixed partners, or of all agents with one set of weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

from pettingzoo import ParallelEnv

from llm_decpomdp.integrations.games import play_once
from llm_decpomdp.integrations.trl.data import completion_text
from llm_decpomdp.policy import Policy
from llm_decpomdp.wrappers.single_agent_view import check_team

RewardFunc: TypeAlias = Callable[..., list[float]]
"""Function of TRL's keyword arguments `prompts`, `completions` and those of the columns; a number for each row."""


def seat_reward(
    env: ParallelEnv[str, Any, Any], agent: str, partners: Mapping[str, Policy]
) -> RewardFunc:
    """Return the reward of one agent's completions beside partners that stay as they are.

    What learns from it learns a best response. The partners answer all prompts of a batch together.

    Args:
        env: An environment of one turn.
        agent: The agent of all rows.
        partners: A policy for each other agent.

    Raises:
        KeyError, TypeError: As `llm_decpomdp.single_agent_view`.
    """
    check_team(env.possible_agents, agent, partners)

    def seat(
        prompts: Sequence[Any], completions: Sequence[Any], task_id: Sequence[str], **_: Any
    ) -> list[float]:
        texts = [{agent: completion_text(completion)} for completion in completions]
        rewards = play_once(env, list(zip(task_id, texts, strict=True)), partners)
        return [float(by_agent[agent]) for by_agent in rewards]

    return seat


def team_reward(env: ParallelEnv[str, Any, Any]) -> RewardFunc:
    """Return the reward of a team whose agents share the weights that are trained.

    The g-th completions of all agents in a task are played together, for each g, and each of them has that reward:
    MAGRPO on TRL's own loss. A batch must hold whole teams: the rows of `dataset` in their order
    (`shuffle_dataset=False`), and as many of them that each process has all agents of each of its tasks.

    Args:
        env: An environment of one turn.
    """
    agents = list(env.possible_agents)

    def team(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        task_id: Sequence[str],
        agent: Sequence[str],
        **_: Any,
    ) -> list[float]:
        joint = whole_teams(list(zip(task_id, agent, strict=True)), agents)
        plays = [
            (
                task_id[rows[agents[0]]],
                {name: completion_text(completions[i]) for name, i in rows.items()},
            )
            for rows in joint
        ]
        rewards = [0.0] * len(completions)
        for rows, by_agent in zip(joint, play_once(env, plays), strict=True):
            for name, i in rows.items():
                rewards[i] = float(by_agent[name])
        return rewards

    return team


def whole_teams(keys: Sequence[tuple[str, str]], agents: Sequence[str]) -> list[dict[str, int]]:
    """Find the rows of a batch that are played together.

    Args:
        keys: Task and agent of each row; equal ones stand together.
        agents: The agents of a team.

    Returns:
        For each joint sample the row of each agent.

    Raises:
        ValueError: If the batch cuts a team in two, or agents of a task have different numbers of rows.
    """
    runs = [
        (key, [i for i, _ in rows]) for key, rows in groupby(enumerate(keys), lambda row: row[1])
    ]
    joint = []
    for first in range(0, len(runs), len(agents)):
        block = runs[first : first + len(agents)]
        rows = {agent: indices for (_, agent), indices in block}
        tasks, sizes = {task for (task, _), _ in block}, {len(indices) for indices in rows.values()}
        if set(rows) != set(agents) or len(tasks) != 1 or len(sizes) != 1:
            stands = ", ".join(
                f"{len(indices)} of {agent} in {task}" for (task, agent), indices in block
            )
            raise ValueError(
                f"a batch must hold whole teams of {list(agents)}, and here stand {stands}: take the rows of "
                "dataset(env) in their order (shuffle_dataset=False), and a per_device_train_batch_size x "
                f"steps_per_generation that is a multiple of num_generations x {len(agents)}"
            )
        joint += [
            dict(zip(rows, sample, strict=True)) for sample in zip(*rows.values(), strict=True)
        ]
    return joint
