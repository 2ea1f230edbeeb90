"""The data set of an environment's tasks for TRL, and the rewards of completions.

`seat_reward` is the reward of one agent with fixed partners, and `team_reward` that of agents with shared weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from pettingzoo import ParallelEnv

from llm_decpomdp.branching import require_simultaneous
from llm_decpomdp.integrations.games import play_once, task_ids
from llm_decpomdp.policy import Policy
from llm_decpomdp.validation import unknown
from llm_decpomdp.wrappers.single_agent_view import check_team

if TYPE_CHECKING:
    from datasets import Dataset

SEPARATOR = "\t"
"""Between task and agent in the prompt of a row for `rollout_func`, which receives no other column."""

RewardFunc: TypeAlias = Callable[..., list[float]]
"""Function of TRL's keyword arguments `prompts`, `completions` and those of the columns; a number for each row."""


def dataset(
    env: ParallelEnv[str, Any, Any],
    agents: Sequence[str] | None = None,
    *,
    chat: bool = False,
    keyed: bool = False,
) -> Dataset:
    """Make a data set of an environment's tasks, with a row for each agent.

    Args:
        env: An environment with tasks, or a wrapper around one.
        agents: The agents that learn; by default all.
        chat: Make each prompt a conversation of one message, so that TRL applies the chat template of the model.
        keyed: Make each prompt the name of task and agent, for `rollout_func`, which reads the environment's
            prompts.

    Returns:
        The columns `prompt`, `task_id` and `agent`. The rows of a task are adjacent, in the order of the agents.

    Raises:
        KeyError: If there is no such agent.
        TypeError: If the environment has no tasks.
        ValueError: If both `chat` and `keyed` are given.
    """
    from datasets import Dataset

    if chat and keyed:
        raise ValueError(
            "keyed=True: rollout_func applies the chat template itself; drop chat=True"
        )
    agents = list(env.possible_agents if agents is None else agents)
    for agent in agents:
        if agent not in env.possible_agents:
            raise KeyError(unknown("agent", agent, env.possible_agents))
    rows = []
    for task in task_ids(env):
        prompts, _ = env.reset(options={"task_id": task})
        for agent in agents:
            prompt: Any = f"{task}{SEPARATOR}{agent}" if keyed else prompts[agent]
            if chat:
                prompt = [{"role": "user", "content": prompt}]
            rows.append({"prompt": prompt, "task_id": task, "agent": agent})
    return Dataset.from_list(rows)


def completion_text(completion: Any) -> str:
    """Return the text of a completion; for conversational prompts TRL gives a list of one message."""
    if isinstance(completion, str):
        return completion
    ((message),) = completion
    return str(message["content"])


def seat_reward(
    env: ParallelEnv[str, Any, Any], agent: str, partners: Mapping[str, Policy]
) -> RewardFunc:
    """Return the reward of one agent's completions with fixed partners.

    A policy trained on it learns a best response. The partners answer all prompts of a batch together.

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
    """Return the reward of a team whose agents share the trained weights.

    The g-th completions of all agents in a task are played together, for each g, and each of them has that reward:
    MAGRPO with TRL's loss. A batch must hold whole teams: the rows of `dataset` in their order
    (`shuffle_dataset=False`), and each process must have all agents of each of its tasks.

    Args:
        env: An environment of one turn.
    """
    require_simultaneous(env, "team_reward")
    agents = list(env.possible_agents)

    def team(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        task_id: Sequence[str],
        agent: Sequence[str],
        **_: Any,
    ) -> list[float]:
        joint = whole_teams(list(zip(task_id, agent, strict=True)), agents)
        plays = []
        for rows in joint:
            texts = {name: completion_text(completions[i]) for name, i in rows.items()}
            plays.append((task_id[rows[agents[0]]], texts))
        rewards = [0.0] * len(completions)
        for rows, by_agent in zip(joint, play_once(env, plays), strict=True):
            for name, i in rows.items():
                rewards[i] = float(by_agent[name])
        return rewards

    return team


def whole_teams(keys: Sequence[tuple[str, str]], agents: Sequence[str]) -> list[dict[str, int]]:
    """Find the rows of a batch that are played together.

    Args:
        keys: Task and agent of each row; equal keys are adjacent.
        agents: The agents of a team.

    Returns:
        For each joint sample the row of each agent.

    Raises:
        ValueError: If the batch cuts a team in two, or agents of a task have different numbers of rows.
    """
    groups = groupby(enumerate(keys), lambda row: row[1])
    runs = [(key, [i for i, _ in rows]) for key, rows in groups]
    joint: list[dict[str, int]] = []
    for first in range(0, len(runs), len(agents)):
        block = runs[first : first + len(agents)]
        rows = {agent: indices for (_, agent), indices in block}
        tasks, sizes = {task for (task, _), _ in block}, {len(indices) for indices in rows.values()}
        if set(rows) != set(agents) or len(tasks) != 1 or len(sizes) != 1:
            blocks = ", ".join(f"{len(indices)} of {a} in {task}" for (task, a), indices in block)
            raise ValueError(
                f"a batch must hold whole teams of {list(agents)}, and here stand {blocks}: take the rows of "
                "dataset(env) in their order (shuffle_dataset=False), and a per_device_train_batch_size x "
                f"steps_per_generation that is a multiple of num_generations x {len(agents)}"
            )
        samples = zip(*rows.values(), strict=True)
        joint += [dict(zip(rows, sample, strict=True)) for sample in samples]
    return joint


# A trainer for each agent, in lockstep: all sample, the team is rewarded, all update
