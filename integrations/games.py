"""Episodes of one environment that are played side by side, each in a branch, and its tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from pettingzoo import ParallelEnv

from llm_decpomdp.branching import branch, branches_in_threads
from llm_decpomdp.policy import Policy, policy_attribute
from llm_decpomdp.registry import make

MAX_THREADS = 16
"""Most steps at the same time: a step may wait for a sandbox."""


class Games:
    """Episodes that begin with one task each, with policies in some of the seats.

    Args:
        env: The environment; only branches of it are stepped.
        tasks: The `task_id` of each episode.
        partners: Policies of the agents whose texts `step` is not given.
    """

    def __init__(
        self,
        env: ParallelEnv[str, Any, Any],
        tasks: Sequence[str],
        partners: Mapping[str, Policy] | None = None,
    ) -> None:
        self.partners = dict(partners or {})
        self.envs: list[Any] = []
        self.prompts: list[dict[str, str]] = []
        self.threads = MAX_THREADS if branches_in_threads(env) else 1
        for task in tasks:
            prompts, _ = env.reset(options={"task_id": task})
            self.envs.append(branch(env))
            self.prompts.append(prompts)

    @property
    def running(self) -> list[int]:
        """Numbers of the episodes that go on."""
        return [number for number, env in enumerate(self.envs) if env.agents]

    def step(self, texts: Mapping[int, Mapping[str, str]]) -> dict[int, dict[str, float]]:
        """Play a turn of some episodes.

        Args:
            texts: The completions of all agents but the partners, by the number of the episode.

        Returns:
            The rewards of the agents, by the number of the episode.
        """
        actions = {number: dict(by_agent) for number, by_agent in texts.items()}
        for agent, policy in self.partners.items():
            for number, answer in zip(actions, self._answers(policy, agent, actions), strict=True):
                actions[number][agent] = answer
        with ThreadPoolExecutor(self.threads) as pool:
            results = list(pool.map(lambda n: self.envs[n].step(actions[n]), actions))
        for number, result in zip(actions, results, strict=True):
            self.prompts[number] = result[0]
        return {number: result[1] for number, result in zip(actions, results, strict=True)}

    def _answers(self, policy: Policy, agent: str, numbers: Mapping[int, Any]) -> list[str]:
        """Let a policy answer for its agent in several episodes, in one batch."""
        generate_with_envs = policy_attribute(policy, "generate_with_envs")
        if generate_with_envs is not None:
            envs = [self.envs[number] for number in numbers]
            groups = generate_with_envs(envs, [agent] * len(envs))
        else:
            groups = policy.generate([self.prompts[number][agent] for number in numbers])
        return [completion.text for (completion,) in groups]


def play_once(
    env: ParallelEnv[str, Any, Any],
    plays: Sequence[tuple[str, Mapping[str, str]]],
    partners: Mapping[str, Policy] | None = None,
) -> list[dict[str, float]]:
    """Play episodes of one turn.

    Args:
        env: The environment.
        plays: For each episode the `task_id`, and the completions of all agents but the partners.
        partners: Policies of the others.

    Returns:
        The agents' rewards in each episode.

    Raises:
        ValueError: If an episode goes on after the turn.
    """
    games = Games(env, [task for task, _ in plays], partners)
    rewards = games.step({number: texts for number, (_, texts) in enumerate(plays)})
    if games.running:
        task = plays[games.running[0]][0]
        raise ValueError(
            f"the episode of task {task!r} goes on after its first turn, and only that one would be rewarded: "
            "make the environment with num_turns=1, or play all turns with rollout_func"
        )
    return [rewards[number] for number in range(len(plays))]


def task_ids(env: ParallelEnv[str, Any, Any]) -> list[str]:
    """Return the ids of an environment's tasks; raise a `TypeError` where it has none."""
    tasks = getattr(env.unwrapped, "tasks", None)
    if tasks is None:
        raise TypeError(
            f"{type(env.unwrapped).__name__} has no tasks to make rows of; a DecPOMDPEnv has (docs/plugins.md)"
        )
    return [task.task_id for task in tasks.tasks]


def shared_env(env_id: str, env_options: Mapping[str, Any]) -> Any:
    """Return an environment, one for all of equal id and options in a process; play branches of it alone.

    Raises:
        KeyError, TypeError, ValueError: As `llm_decpomdp.make`.
    """
    return _made(env_id, json.dumps(env_options, sort_keys=True))


@cache
def _made(env_id: str, env_options: str) -> Any:
    return make(env_id, **json.loads(env_options))
