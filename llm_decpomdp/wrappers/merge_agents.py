"""A joint view: one player reads the prompts of all agents, and writes all their answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pettingzoo import ParallelEnv

from llm_decpomdp.spaces import UnicodeText
from llm_decpomdp.wrappers.centralized import MISSING, UNTAGGED, join_prompts, read_parts
from llm_decpomdp.wrappers.single_agent_view import TeamView


def merge_agents(env: ParallelEnv[str, Any, Any]) -> MergedAgents:
    """Return the view of one player who stands for all agents, as a Gymnasium environment.

    The problem is another one than the team's, since its player knows all that the agents know: an upper bound.
    Prompts have a section for each agent, and completions hold each agent's part in tags of its name, such as
    `<aux_0>...</aux_0>`, as in `llm_decpomdp.make(..., centralized=True)`; a part without tags is empty.

    Args:
        env: A team environment of texts. It is played as it is, not copied.

    Raises:
        TypeError: If the environment is none of texts.
    """
    return MergedAgents(env)


class MergedAgents(TeamView):
    """The view of one player who stands for all agents; `merge_agents` makes it.

    Its infos are those of the first agent, and say how much of the last completion had no tags: `untagged` and
    `missing_parts`.
    """

    def __init__(self, env: ParallelEnv[str, Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = UnicodeText(_room(env, env.observation_space))
        self.action_space = UnicodeText(_room(env, env.action_space))
        self._missing = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode; see `View.reset`."""
        self._missing = 0
        return super().reset(seed=seed, options=options)

    def _actions(self, action: str) -> dict[str, str]:
        parts = read_parts(action, self._env.agents)
        self._missing = sum(text is None for text in parts.values())
        return {agent: text or "" for agent, text in parts.items()}

    def _observation(self, prompts: Mapping[str, str]) -> str:
        live = {agent: prompts[agent] for agent in self._env.agents}
        return join_prompts(live) if live else ""

    def _reward(self, rewards: Mapping[str, float]) -> float:
        if len(set(rewards.values())) > 1:
            raise ValueError(f"one player for all needs one reward for all, got {dict(rewards)}")
        return super()._reward(rewards)

    def _info(self, info: Mapping[str, Any]) -> dict[str, Any]:
        agents = len(self._env.possible_agents)
        counts = {UNTAGGED: int(self._missing == agents), MISSING: self._missing}
        return {**info, **counts}


def _room(env: ParallelEnv[str, Any, Any], space: Any) -> int:
    """Return the length of the longest joint text: those of all agents, with as much again for titles or tags."""
    longest: int = max(space(agent).max_length for agent in env.possible_agents)
    return (len(env.possible_agents) + 1) * longest
