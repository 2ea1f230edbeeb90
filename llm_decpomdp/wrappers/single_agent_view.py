"""Gymnasium environments over a team environment, for one agent with policies as partners, or for all agents."""

from __future__ import annotations

import copy
import threading
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import gymnasium
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Text
from pettingzoo import ParallelEnv
from typing_extensions import Self

from llm_decpomdp.branching import branch, require_simultaneous
from llm_decpomdp.policy import (
    Dialogue,
    DialogueTurn,
    Policy,
    Seedable,
    policy_attribute,
    reads_history,
    turns_after,
)
from llm_decpomdp.seeding import stream
from llm_decpomdp.spaces import UnicodeText
from llm_decpomdp.validation import unknown
from llm_decpomdp.wrappers.centralized import (
    MISSING,
    UNTAGGED,
    join_prompts,
    part_texts,
    read_parts,
)

Value = TypeVar("Value")


class TeamView(gymnasium.Env[str, str]):
    """One player's view of a team environment.

    No public attribute leads to the environment or to another agent's policy, and so to answers, hidden tests or
    the global state. Python has no stronger privacy: a program that reads underscored names sees all.

    Args:
        env: The team environment. It is played as it is, not copied.

    Raises:
        TypeError: If the environment is none of a team, or an agent's observations or actions are no texts.
        ValueError: If the agents take turns.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}  # type: ignore[misc]  # one for all

    def __init__(self, env: ParallelEnv[str, Any, Any]) -> None:
        _require_texts(env)
        require_simultaneous(env, "a single-agent view")
        self._env = env
        self._prompts: Mapping[str, str] = {}
        self._running = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode; `seed` and `options` go to the team environment.

        Returns:
            The first prompt, and the agent's infos.

        Raises:
            ValueError: If the agent of a single-agent view joins the episode later.
        """
        # Cleared first: if the reset raises, a step must not go on in the previous episode.
        self._running = False
        super().reset(seed=seed)
        self._prompts, infos = self._env.reset(seed=seed, options=options)
        info = self._info(infos[self._reported_agent(infos)])
        self._running = True
        return self._observation(self._prompts), info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play a turn.

        Returns:
            The next prompt, the reward, whether the episode terminated or was truncated, and the agent's infos.

        Raises:
            ResetNeeded: If the view has begun no episode, or its agent has left it.
            TypeError: If the action is not a string.
        """
        if not isinstance(action, str):
            raise TypeError(f"an action is a text, got {type(action).__name__}")
        if not self._running:
            raise ResetNeeded("no episode is running: call reset() before step()")
        prompts, rewards, terminations, truncations, infos = self._env.step(self._actions(action))
        self._prompts = prompts
        agent = self._reported_agent(infos)
        terminated, truncated = terminations[agent], truncations[agent]
        self._running = not (terminated or truncated)
        return (
            self._observation(prompts),
            self._reward(rewards, agent),
            terminated,
            truncated,
            self._info(infos[agent]),
        )

    def fork(self) -> Self:
        """Return an independent view in the same state; policies, loaded tasks and spaces are shared.

        Raises:
            TypeError: If the team environment cannot be branched; says the remedy.
        """
        twin = copy.copy(self)
        twin._env = branch(self._env)
        twin._np_random = copy.deepcopy(self._np_random)
        return twin

    def close(self) -> None:
        """Close the team environment."""
        self._env.close()

    @abstractmethod
    def _actions(self, action: str) -> dict[str, str]:
        """Return the completions of all live agents."""

    @abstractmethod
    def _observation(self, prompts: Mapping[str, str]) -> str:
        """Return the text that the player sees."""

    @abstractmethod
    def _reported_agent(self, infos: Mapping[str, Any]) -> str:
        """Return the agent whose reward, flags and infos are those of the player."""

    def _reward(self, rewards: Mapping[str, float], agent: str) -> float:
        """Return the player's reward."""
        return rewards[agent]

    def _info(self, info: Mapping[str, Any]) -> dict[str, Any]:
        """Return the player's infos, of those of its agent."""
        return dict(info)


def _require_texts(env: object) -> None:
    """Raise a `TypeError` unless all observations and actions are texts."""
    if not isinstance(env, ParallelEnv):
        raise TypeError(f"a view is of a pettingzoo.ParallelEnv, got a {type(env).__name__}")
    for agent in env.possible_agents:
        for space in (env.observation_space(agent), env.action_space(agent)):
            if not isinstance(space, Text):
                raise TypeError(f"a view needs spaces of texts, and {agent!r} has {space}")


# A seat: one agent's view of a team whose other agents are played by policies


_ANSWERING = threading.RLock()
"""Lock of the policies, which seats in several threads share, and which need not be safe there."""


class SingleAgentView(TeamView):
    """One agent's view of a team environment, as a Gymnasium environment.

    What learns in it learns a best response to its partners, which do not change. Equal seeds and actions give
    equal episodes: a partner with a random stream begins it anew in every turn, from the episode's seed, the turn
    and its agent, and so it answers a prompt in forks as in the original. One whose answers depend on something
    else, such as a `Replay` on what it has said, goes on in all forks together.

    Args:
        env: A team environment of texts. It is played as it is, not copied.
        agent: The agent in the seat.
        partners: A policy for each other agent. Each answers its own prompt in every turn.

    Raises:
        KeyError: If there is no such agent, a partner is missing or there is one too many; names it.
        TypeError: If a partner is no policy, or the environment is none of texts.
    """

    def __init__(
        self, env: ParallelEnv[str, Any, Any], agent: str, partners: Mapping[str, Policy]
    ) -> None:
        super().__init__(env)
        check_team(env.possible_agents, agent, partners)
        self._agent = agent
        self.observation_space = env.observation_space(agent)
        self.action_space = env.action_space(agent)
        self._partners = {mate: partners[mate] for mate in env.possible_agents if mate != agent}
        self._seed = 0
        self._turn = 0
        self._histories: Mapping[str, tuple[DialogueTurn, ...]] = {}

    @property
    def agent(self) -> str:
        """The agent in the seat."""
        return self._agent

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode; see `TeamView.reset`."""
        prompt, info = super().reset(seed=seed, options=options)
        self._seed, self._turn, self._histories = int(self.np_random.integers(2**62)), 0, {}
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
                # By turn, and not one stream for the episode: a fork then draws as the original does.
                draws = stream(self._seed, "partner", agent, self._turn)
                policy.seed(int(draws.integers(2**32)))
            generate_with_envs = policy_attribute(policy, "generate_with_envs")
            if generate_with_envs is not None:
                ((completion,),) = generate_with_envs([self._env], [agent])
                return str(completion.text)
            if not reads_history(policy):
                return policy.act(self._prompts[agent])
            prompt = Dialogue(self._prompts[agent], self._histories.get(agent, ()))
            ((completion,),) = policy.generate([prompt])
            # A new mapping: forks share the old one.
            self._histories = {**self._histories, agent: turns_after(prompt, completion)}
            return completion.text

    def _observation(self, prompts: Mapping[str, str]) -> str:
        return prompts[self._agent]

    def _reported_agent(self, infos: Mapping[str, Any]) -> str:
        if self._agent not in infos:
            raise ValueError(
                f"{self._agent!r} joins the episode later, and a single-agent view begins with its agent's first "
                f"prompt: choose one of the agents {list(infos)}"
            )
        return self._agent


single_agent_view = SingleAgentView


def check_team(agents: list[str], agent: str, partners: Mapping[str, Policy]) -> None:
    """Check that there is a policy for each agent but one; errors as of `single_agent_view`."""
    if agent not in agents:
        raise KeyError(unknown("agent", agent, agents))
    partner_ids = [mate for mate in agents if mate != agent]
    for mate in partner_ids:
        if mate not in partners:
            raise KeyError(f"no partner plays {mate!r}: give a policy for each of {partner_ids}")
    for mate, policy in partners.items():
        if mate == agent:
            raise KeyError(f"{agent!r} is the seat itself: drop it from the partners {partner_ids}")
        if mate not in partner_ids:
            raise KeyError(unknown("partner", mate, partner_ids))
        if not isinstance(policy, Policy):
            raise TypeError(
                f"the partner {mate!r} must be a policy with generate and act, got a {type(policy).__name__}"
            )


# A joint view: one player who reads the prompts of all agents, and writes all their answers


class MergedAgents(TeamView):
    """The view of one player who stands for all agents, as a Gymnasium environment.

    The problem is another one than the team's, since its player knows all that the agents know: an upper bound.
    Prompts have a section for each agent, and completions hold each agent's part in tags of its name, such as
    `<aux_0>...</aux_0>`, as in `llm_decpomdp.make(..., centralized=True)`; a part without tags is empty. Infos are
    those of the first live agent, with `untagged` and `missing_parts` of the last completion. The episode ends
    with the last agent.

    Args:
        env: A team environment of texts. It is played as it is, not copied.

    Raises:
        TypeError: If the environment is none of texts.
    """

    def __init__(self, env: ParallelEnv[str, Any, Any]) -> None:
        super().__init__(env)
        self._untagged = self._missing = 0
        agents = env.possible_agents
        for kind in ("observation", "action"):
            longest = max(getattr(env, f"{kind}_space")(agent).max_length for agent in agents)
            # The texts of all agents, with as much again for titles or tags.
            setattr(self, f"{kind}_space", UnicodeText((len(agents) + 1) * longest))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode; see `TeamView.reset`."""
        self._untagged = self._missing = 0
        return super().reset(seed=seed, options=options)

    def _actions(self, action: str) -> dict[str, str]:
        parts = read_parts(action, self._env.agents)
        self._missing = sum(text is None for text in parts.values())
        self._untagged = int(self._missing == len(parts))
        return part_texts(parts)

    def _observation(self, prompts: Mapping[str, str]) -> str:
        live = {agent: prompts[agent] for agent in self._env.agents}
        return join_prompts(live) if live else ""

    def _reported_agent(self, infos: Mapping[str, Any]) -> str:
        return next((agent for agent in infos if agent in self._env.agents), next(iter(infos)))

    def _reward(self, rewards: Mapping[str, float], agent: str) -> float:
        if len(set(rewards.values())) > 1:
            raise ValueError(f"one player for all needs one reward for all, got {dict(rewards)}")
        return super()._reward(rewards, agent)

    def _info(self, info: Mapping[str, Any]) -> dict[str, Any]:
        return {**info, UNTAGGED: self._untagged, MISSING: self._missing}


merge_agents = MergedAgents
