"""The environment of learners, a PettingZoo parallel environment of texts, and its play in branches."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from numbers import Real
from typing import Any, NamedTuple, Protocol, SupportsFloat

import numpy as np

from llm_decpomdp.algorithms.rollouts.rollout import Joint, Start, View
from llm_decpomdp.branching import acting_agents, branch, branches_in_threads
from llm_decpomdp.policy import Completion

# More than the sandbox has workers: while some of them run programs, other steps read and judge theirs.
MAX_STEP_THREADS = 16
OWN = "own/"  # prefix of infos with points of a single agent, no part of the reward


class TextEnv(Protocol):
    """A `pettingzoo.ParallelEnv` whose observations and actions are strings."""

    possible_agents: list[str]
    agents: list[str]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        """Start an episode: observations and infos of every agent."""
        ...

    def step(
        self, actions: dict[str, str]
    ) -> tuple[
        Mapping[str, str],
        Mapping[str, float],
        Mapping[str, bool],
        Mapping[str, bool],
        Mapping[str, Any],
    ]:
        """Observations, rewards, terminations, truncations and infos of the agents that acted."""
        ...


class StepOutcome(NamedTuple):
    """The state that a joint sample led to, with its reward."""

    env: TextEnv
    prompts: dict[str, str]  # empty once the episode is over
    reward: float
    info: dict[str, float]
    own: dict[str, float]
    """Points of single agents, the sum of the `own/...` infos of each agent that has any."""
    cut: dict[str, str]
    """The prompts at which a time limit cut the episode off, if one did: it was not over."""

    def view(self) -> View | None:
        """Return the state as a critic reads it; `None` once the episode is over."""
        prompts = self.prompts or self.cut
        return view(self.env, prompts) if prompts else None


def view(env: TextEnv, prompts: Mapping[str, str]) -> View:
    """Return a state as a critic reads it; raise a `TypeError` if the environment's `state()` isn't a text."""
    try:
        state = env.state() if hasattr(env, "state") else ""
    except NotImplementedError:  # PettingZoo's own
        state = ""
    if not isinstance(state, str):
        raise TypeError(
            f"a critic reads texts, and state() of {type(env).__name__} returned a {type(state).__name__}: let it "
            "return a str, or set critic_input=history"
        )
    return View(state, dict(prompts))


def reset_branch(env: TextEnv, start: Start) -> tuple[TextEnv, dict[str, str]]:
    """Reset the environment to a start; return a branch of it, and the first prompts."""
    options = None if start.task_id is None else {"task_id": start.task_id}
    prompts, _ = env.reset(seed=start.seed, options=options)
    return branch(env), _prompts(prompts, acting_agents(env))


def step(
    envs: Sequence[TextEnv],
    samples: Sequence[Mapping[str, tuple[Completion, ...]]],
    joints: Sequence[Joint],
) -> list[list[StepOutcome]]:
    """Play every joint sample of every state in a branch of its own.

    Forks step in threads, since a step may wait for other processes; nothing promises that of deep
    copies, nor of wrappers that keep something.

    Raises:
        TypeError: If a prompt isn't a text, or a reward isn't a number.
        ValueError: If the agents' rewards differ or are not finite, or agents are live and none acts.
    """
    steps: list[tuple[TextEnv, dict[str, str]]] = []
    for env, completions, joint in zip(envs, samples, joints, strict=True):
        for indices in joint:
            pairs = zip(completions.items(), indices, strict=True)
            steps.append((branch(env), {agent: group[g].text for (agent, group), g in pairs}))
    # Threads and not processes: a step waits for sandbox processes, which do the work outside of this interpreter.
    threads = min(MAX_STEP_THREADS, len(steps))
    if threads > 1 and all(map(branches_in_threads, envs)):
        with ThreadPoolExecutor(threads) as pool:
            outcomes = list(pool.map(_step, *zip(*steps, strict=True)))
    else:
        outcomes = [_step(env, actions) for env, actions in steps]
    played = iter(outcomes)
    return [list(islice(played, len(joint))) for joint in joints]


def _step(env: TextEnv, actions: dict[str, str]) -> StepOutcome:
    observations, rewards, terminations, truncations, infos = env.step(actions)
    acting = acting_agents(env)
    # An episode whose agents stay live after their end would be sampled for ever.
    stale = [agent for agent in env.agents if terminations.get(agent) or truncations.get(agent)]
    if stale:
        raise ValueError(
            f"{stale} are done and still in env.agents: take an agent out of it in the step that ends its episode"
        )
    if env.agents and not acting:
        raise ValueError(
            f"{sorted(env.agents)} are live and none of them acts: let `acting` name an agent until all are done"
        )
    # A rollout records one reward for the team: of unequal ones all but the first agent's would be lost.
    first = next(iter(actions))
    earned = {agent: _reward(agent, rewards[agent]) for agent in {**actions, **rewards}}
    if any(reward != earned[first] for reward in earned.values()):
        raise ValueError(f"the agents of a team must earn the same finite reward, got {rewards}")
    numbers = {k: v for k, v in infos[first].items() if isinstance(v, (Real, np.bool_))}
    info = {key: float(value) for key, value in numbers.items() if not _is_own(key)}
    own = {agent: _own_points(infos[agent]) for agent in infos if any(map(_is_own, infos[agent]))}
    cut = [] if env.agents or terminations.get(first) or not truncations.get(first) else actions
    prompts = _prompts(observations, acting)
    return StepOutcome(env, prompts, earned[first], info, own, _prompts(observations, cut))


def _is_own(key: str) -> bool:
    return key.startswith(OWN)


def _own_points(info: Mapping[str, Any]) -> float:
    return math.fsum(float(value) for key, value in info.items() if _is_own(key))


def _reward(agent: str, reward: Any) -> float:
    """Return a reward as a finite number."""
    if not isinstance(reward, SupportsFloat):
        raise TypeError(
            f"the reward of {agent!r} must be a finite number, got {reward!r:.80} ({type(reward).__name__}): "
            "let step() of the environment return a float for each agent"
        )
    if not math.isfinite(number := float(reward)):
        raise ValueError(
            f"the reward of {agent!r} must be a finite number, got {number}: let step() of the environment return "
            "one"
        )
    return number


def _prompts(observations: Mapping[str, Any], agents: Collection[str]) -> dict[str, str]:
    for agent in agents:
        if not isinstance(observations[agent], str):
            kind = type(observations[agent]).__name__
            raise TypeError(f"the observation of {agent!r} must be a str (a prompt), got {kind}")
    return {agent: observations[agent] for agent in agents}
