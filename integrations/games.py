"""Helpers of the adapters: concurrent episodes in branches of one environment, its tasks, and its sharing."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import gymnasium
from pettingzoo import ParallelEnv
from typing_extensions import Self

from llm_decpomdp.branching import branch, branches_in_threads
from llm_decpomdp.policy import Dialogue, DialogueTurn, Policy, policy_attribute, turns_after
from llm_decpomdp.registry import make
from llm_decpomdp.spaces import MAX_ACTION_LENGTH, MAX_OBSERVATION_LENGTH, UnicodeText

MAX_THREADS = 16
"""Maximum number of concurrent steps: a step may wait for a sandbox."""


class Games:
    """Concurrent episodes, one for each given task; policies play some of the agents.

    Args:
        env: The environment; only branches of it are stepped.
        tasks: The `task_id` of each episode.
        partners: Policies of agents whose texts `step` does not receive.
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
        self._histories: dict[tuple[int, str], tuple[DialogueTurn, ...]] = {}
        self.threads = MAX_THREADS if branches_in_threads(env) else 1
        # Reset before branching, so that all branches share the loaded tasks.
        for task in tasks:
            prompts, _ = env.reset(options={"task_id": task})
            self.envs.append(branch(env))
            self.prompts.append(prompts)

    @property
    def running(self) -> list[int]:
        """Numbers of the running episodes."""
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
        rewards = {}
        for number, result in zip(actions, results, strict=True):
            self.prompts[number], rewards[number] = result[:2]
        return rewards

    def _answers(self, policy: Policy, agent: str, numbers: Mapping[int, Any]) -> list[str]:
        """Let a policy act for its agent in several episodes, in one batch."""
        generate_with_envs = policy_attribute(policy, "generate_with_envs")
        if generate_with_envs is not None:
            envs = [self.envs[number] for number in numbers]
            groups = generate_with_envs(envs, [agent] * len(envs))
        else:
            prompts = [
                Dialogue(self.prompts[number][agent], self._histories.get((number, agent), ()))
                for number in numbers
            ]
            groups = policy.generate(prompts)
            for number, prompt, (completion,) in zip(numbers, prompts, groups, strict=True):
                self._histories[number, agent] = turns_after(prompt, completion)
        return [completion.text for (completion,) in groups]


def play_once(
    env: ParallelEnv[str, Any, Any],
    plays: Sequence[tuple[str, Mapping[str, str]]],
    partners: Mapping[str, Policy] | None = None,
) -> list[dict[str, float]]:
    """Play episodes of one turn, and return the agents' rewards in each.

    Args:
        env: The environment.
        plays: For each episode the `task_id`, and the completions of all agents but the partners.
        partners: Policies of the other agents.

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
    """Return the ids of an environment's tasks; raise a `TypeError` if it has none."""
    tasks = getattr(env.unwrapped, "tasks", None)
    if tasks is None:
        raise TypeError(
            f"{type(env.unwrapped).__name__} has no tasks to make rows of; a DecPOMDPEnv has (docs/plugins.md)"
        )
    return [task.task_id for task in tasks.tasks]


def shared_env(env_id: str, env_options: Mapping[str, Any]) -> Any:
    """Return an environment, the same one for equal id and options in a process. Play only branches of it.

    Raises:
        KeyError, TypeError, ValueError: As `llm_decpomdp.make`.
    """
    # As JSON, because dictionaries are not hashable.
    return _made(env_id, json.dumps(env_options, sort_keys=True))


@cache
def _made(env_id: str, env_options: str) -> Any:
    return make(env_id, **json.loads(env_options))


class TextGame(gymnasium.Env[str, str]):
    """Base of single-agent environments of other libraries: spaces of texts, and forks."""

    metadata = {"render_modes": []}  # noqa: RUF012  # as Gymnasium declares it

    def __init__(self) -> None:
        self.observation_space = UnicodeText(MAX_OBSERVATION_LENGTH)
        self.action_space = UnicodeText(MAX_ACTION_LENGTH)

    def fork(self) -> Self:
        """Return an independent environment in the same state; subclasses copy their own mutable state."""
        twin = copy.copy(self)
        twin._np_random = copy.deepcopy(self._np_random)  # a shallow copy would share the draws
        return twin
