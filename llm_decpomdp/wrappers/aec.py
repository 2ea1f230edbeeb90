"""PettingZoo's other API, in which one agent acts at a time: views of our environments in it, and the reverse."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any, Literal

from gymnasium.spaces import Text
from pettingzoo import AECEnv, ParallelEnv

from llm_decpomdp.branching import acting_agents, branch
from llm_decpomdp.spaces import read_actions
from llm_decpomdp.wrappers.turn_order import unpaid_infos


class TurnView(AECEnv[str, Any, str]):  # type: ignore[misc]  # pettingzoo has no types
    """A parallel environment of texts as an AEC environment, in the order of its `acting` agents.

    Agents that act in the same turn are selected one after the other, and see nothing of each other's actions. The
    environment steps when the last of them has acted. Waiting agents are not selected.

    Args:
        env: A team environment of texts. The environment is played as it is, not copied.
    """

    def __init__(self, env: ParallelEnv[str, Any, Any]) -> None:
        super().__init__()
        self.env = env
        # PettingZoo's `aec_to_parallel` refuses environments without this key.
        self.metadata = {**env.metadata, "is_parallelizable": True}
        self.possible_agents = list(env.possible_agents)
        self.render_mode = getattr(env, "render_mode", None)
        self.agents: list[str] = []

    @property
    def readers(self) -> Any:
        """For each agent the others that read its completions."""
        return getattr(self.env, "readers", {})

    def observation_space(self, agent: str) -> Any:
        """Return the space of `agent`'s prompts."""
        return self.env.observation_space(agent)

    def action_space(self, agent: str) -> Any:
        """Return the space of `agent`'s completions."""
        return self.env.action_space(agent)

    @property
    def state_space(self) -> Any:
        """The space of `state`."""
        return self.env.state_space

    def state(self) -> Any:
        """Return the global state."""
        return self.env.state()

    @property
    def unwrapped(self) -> Any:
        """Itself: PettingZoo's tests expect an AEC environment."""
        return self

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode; the first acting agent is selected."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self.agents = list(self.env.agents)
        self._observations, self.infos = dict(observations), dict(infos)
        self.rewards: dict[str, float] = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards: dict[str, float] = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._begin_turn()

    def _begin_turn(self) -> None:
        self._actions: dict[str, Any] = {}
        self._waiting = list(acting_agents(self.env))
        if self._waiting:
            self.agent_selection = self._waiting[0]

    def observe(self, agent: str) -> Any:
        """Return the agent's current prompt."""
        return self._observations[agent]

    def step(self, action: Any) -> None:
        """Take the action of the selected agent; `None` where it is done.

        Raises:
            TypeError: If the action is not a string.
        """
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        # Now, as the environment would only see it after the actions of the others.
        text = read_actions({agent: action}, [agent])
        # What an agent has earned is read by `last()` before it acts, and starts again from there.
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        self._actions |= text
        remaining = [name for name in self._waiting if name not in self._actions]
        if remaining:
            self.agent_selection = remaining[0]
            # Nothing is earned until the environment steps, so the components of the last reward are over.
            self.infos = unpaid_infos(self.infos)
        else:
            self._step_all()
        self._accumulate_rewards()
        # In the AEC API agents that are done step first, each with `None`; PettingZoo selects them here.
        self._deads_step_first()
        if self.render_mode == "human":
            self.render()

    def _step_all(self) -> None:
        observations, rewards, terminations, truncations, infos = self.env.step(self._actions)
        for agent in observations:
            if agent not in self.agents:  # it joins the episode
                self.agents.append(agent)
                self._cumulative_rewards[agent] = 0.0
        self._observations |= observations
        self.infos |= infos
        self.rewards = dict.fromkeys(self.agents, 0.0) | dict(rewards)
        self.terminations |= terminations
        self.truncations |= truncations
        self._begin_turn()

    def render(self) -> Any:
        """Render the environment."""
        return None if self.render_mode == "human" else self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> TurnView:
        """Return an independent environment in the same state; loaded tasks are shared as in forks."""
        twin = copy.copy(self)
        for name, value in vars(self).items():
            setattr(twin, name, branch(value) if name == "env" else copy.copy(value))
        return twin

    def __str__(self) -> str:
        return str(self.env)


aec = TurnView


class ParallelView(ParallelEnv[str, Any, str]):  # type: ignore[misc]  # pettingzoo has no types
    """An AEC environment of texts as a parallel one in which agents take turns, for our learners.

    Args:
        env: An environment whose observations and actions are texts. It is played as it is, not copied.
        team_reward: `equal` takes the reward of each agent as it is: a learner refuses a step whose rewards
            differ. `sum` gives every agent the sum of all agents' rewards.

    Raises:
        TypeError: If a space is none of texts; names the agent.
        ValueError: If `team_reward` is neither of the two.
    """

    def __init__(
        self, env: AECEnv[str, Any, str], *, team_reward: Literal["equal", "sum"] = "equal"
    ) -> None:
        if team_reward not in ("equal", "sum"):
            raise ValueError(f"team_reward must be one of ['equal', 'sum'], got {team_reward!r}")
        for kind, agent in product(("observation", "action"), env.possible_agents):
            space = getattr(env, f"{kind}_space")(agent)
            if not isinstance(space, Text):
                raise TypeError(
                    f"the {kind} space of {agent!r} must be one of texts (gymnasium.spaces.Text), got {space!r}: "
                    "write observations as prompts and read actions from texts in a wrapper"
                )
        # Nothing here may change in an episode: `branch` then copies the AEC environment alone.
        self.aec_env = env
        self.team_reward = team_reward
        self.render_mode = getattr(env, "render_mode", None)

    @property
    def possible_agents(self) -> list[str]:
        """All agents."""
        return list(self.aec_env.possible_agents)

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the environment; it is turn-based."""
        return {"render_modes": [], **self.aec_env.metadata, "turn_based": True}

    @property
    def agents(self) -> list[str]:
        """The agents that are not done."""
        env = self.aec_env
        live: list[str] = getattr(env, "agents", [])  # many AEC environments have none before reset
        return [a for a in live if not (env.terminations[a] or env.truncations[a])]

    @property
    def acting(self) -> tuple[str, ...]:
        """The one agent that acts next."""
        return (self.aec_env.agent_selection,) if self.agents else ()

    @property
    def readers(self) -> Any:
        """For each agent the others that read its completions, as the environment declares."""
        return getattr(self.aec_env, "readers", {})

    def observation_space(self, agent: str) -> Any:
        """Return the space of `agent`'s prompts."""
        return self.aec_env.observation_space(agent)

    def action_space(self, agent: str) -> Any:
        """Return the space of `agent`'s completions."""
        return self.aec_env.action_space(agent)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        """Start an episode: the observation of the first agent, and empty texts for the others."""
        self.aec_env.reset(seed=seed, options=options)
        return self._observations(self.agents), self._infos(self.agents)

    def step(
        self, actions: dict[str, str]
    ) -> tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Any]]:
        """Let the selected agent act; the actions of others are ignored.

        Raises:
            KeyError: If the selected agent's action is missing, or an unknown agent acts.
            TypeError: If its action is not a string.
        """
        env, live = self.aec_env, self.agents
        if not live:
            return {}, {}, {}, {}, {}
        agent = env.agent_selection
        env.step(read_actions(actions, [agent], waiting=live)[agent])
        earned = {name: float(env.rewards.get(name, 0.0)) for name in env.agents}
        # Copies, as the steps of agents that are done remove their entries.
        terminations, truncations = dict(env.terminations), dict(env.truncations)
        infos = dict(env.infos)
        while env.agents and (
            env.terminations[env.agent_selection] or env.truncations[env.agent_selection]
        ):
            env.step(None)  # the AEC API takes a step for each agent that is done
        recipients = [name for name in self.possible_agents if name in live or name in self.agents]
        if self.team_reward == "sum":
            rewards = dict.fromkeys(recipients, sum(earned.values()))
        else:
            rewards = {name: earned.get(name, 0.0) for name in recipients}
        return (
            self._observations(recipients),
            rewards,
            {name: bool(terminations.get(name, False)) for name in recipients},
            {name: bool(truncations.get(name, False)) for name in recipients},
            self._infos(recipients, infos),
        )

    def _observations(self, agents: list[str]) -> dict[str, str]:
        acting = self.acting
        return {a: str(self.aec_env.observe(a)) if a in acting else "" for a in agents}

    def _infos(self, agents: list[str], infos: dict[str, Any] | None = None) -> dict[str, Any]:
        infos, acting = self.aec_env.infos if infos is None else infos, self.acting
        return {a: {**infos.get(a, {}), "acting": float(a in acting)} for a in agents}

    def state(self) -> Any:
        """Return the global state."""
        return self.aec_env.state()

    def render(self) -> Any:
        """Render the environment."""
        return self.aec_env.render()

    def close(self) -> None:
        """Close the environment."""
        self.aec_env.close()

    def __str__(self) -> str:
        return str(self.aec_env)


from_aec = ParallelView
