"""Rows of a data set: the first prompts of an environment's tasks, those of a team beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pettingzoo import ParallelEnv

from llm_decpomdp.integrations.games import task_ids
from llm_decpomdp.validation import unknown

if TYPE_CHECKING:
    from datasets import Dataset

SEPARATOR = "\t"
"""Between task and agent in the prompt of a row for `rollout_func`, which is given no other column."""


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
        agents: The agents that learn; all of them if none are given.
        chat: Let prompts be conversations of one message, so that TRL applies the chat template of the model.
        keyed: Let prompts be names of task and agent, for `rollout_func`, which asks the environment for prompts.

    Returns:
        The columns `prompt`, `task_id` and `agent`; the rows of a task stand together, in the order of the agents.

    Raises:
        KeyError: If there is no such agent.
        TypeError: If the environment has no tasks.
        ValueError: If prompts are to be both conversations and names.
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
    """Return the text of a completion: TRL gives one message of a conversation where the prompt is one."""
    if isinstance(completion, str):
        return completion
    ((message),) = completion
    return str(message["content"])
