"""A seat: one agent's view of a team whose other agents are played by policies."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from pettingzoo import ParallelEnv

from llm_decpomdp.policy import Policy, PrivilegedPolicy, Seedable
from llm_decpomdp.seeding import stream
from llm_decpomdp.validation import unknown
from llm_decpomdp.wrappers.base import View

_ANSWERING = threading.RLock()
"""Lock of the policies, which seats in several threads share, and which need not be safe there."""


def seat(env: ParallelEnv[str, Any, Any], agent: str, partners: Mapping[str, Policy]) -> Seat:
    """Return one agent's view of a team environment, as a Gymnasium environment.

    What learns in it learns a best response to its partners, which do not change.

    Args:
        env: A team environment of texts. It is played as it is, not copied.
        agent: The agent in the seat.
        partners: A policy for each other agent. Each answers its own prompt in every turn.

    Raises:
        KeyError: If there is no such agent, a partner is missing or there is one too many; names it.
        TypeError: If a partner is no policy, or the environment is none of texts.
    """
    return Seat(env, agent, partners)


class Seat(View):
    """One agent's view; `seat` makes it.

    Equal seeds and actions give equal episodes: a partner with a random stream begins it anew in every turn, from
    the episode's seed, the turn and its agent, and so it answers a prompt in forks as in the original. One whose
    answers depend on something else, such as a `Replay` on what it has said, goes on in all forks together.
    """

    def __init__(
        self, env: ParallelEnv[str, Any, Any], agent: str, partners: Mapping[str, Policy]
    ) -> None:
        super().__init__(env, agent)
        check_team(env.possible_agents, agent, partners)
        self.observation_space = env.observation_space(agent)
        self.action_space = env.action_space(agent)
        self._partners = {mate: partners[mate] for mate in env.possible_agents if mate != agent}
        self._seed = 0
        self._turn = 0

    @property
    def agent(self) -> str:
        """The agent in the seat."""
        return self._agent

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode; see `View.reset`."""
        prompt, info = super().reset(seed=seed, options=options)
        self._seed, self._turn = int(self.np_random.integers(2**62)), 0
        return prompt, info

    def _actions(self, action: str) -> dict[str, str]:
        actions = {
            agent: action if agent == self._agent else self._answer(agent)
            for agent in self._env.agents
        }
        self._turn += 1
        return actions

    def _answer(self, agent: str) -> str:
        policy = self._partners[agent]
        with _ANSWERING:
            if isinstance(policy, Seedable):
                draws = stream(self._seed, "partner", agent, self._turn)
                policy.seed(int(draws.integers(2**32)))
            if isinstance(policy, PrivilegedPolicy):
                ((completion,),) = policy.generate_in([self._env], [agent])
                return completion.text
            return policy.act(self._prompts[agent])

    def _observation(self, prompts: Mapping[str, str]) -> str:
        return prompts[self._agent]


def check_team(agents: list[str], agent: str, partners: Mapping[str, Policy]) -> None:
    """Check that there is a policy for each agent but one; errors as of `seat`."""
    if agent not in agents:
        raise KeyError(unknown("agent", agent, agents))
    others = [mate for mate in agents if mate != agent]
    for mate in others:
        if mate not in partners:
            raise KeyError(f"no partner plays {mate!r}: give a policy for each of {others}")
    for mate, policy in partners.items():
        if mate == agent:
            raise KeyError(f"{agent!r} is the seat itself: drop it from the partners {others}")
        if mate not in others:
            raise KeyError(unknown("partner", mate, others))
        if not isinstance(policy, Policy):
            raise TypeError(
                f"the partner {mate!r} must be a policy with generate and act, got a {type(policy).__name__}"
            )
