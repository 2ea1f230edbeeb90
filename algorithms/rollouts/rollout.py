"""Rollouts: groups of joint samples, and how they are sampled and played.

A group is one decision of the team: every agent samples G completions for its prompt, and joint samples
are made of them, each played in a branch of the environment of its own. Which joint samples go on is the
business of a plan: `chain` or `tree`. Works with any PettingZoo parallel environment whose observations
and actions are texts and whose agents share one reward.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.branching import branch, branches_in_threads
from llm_decpomdp.policy import Completion, EnginePolicy, Policy, PrivilegedPolicy, Team
from llm_decpomdp.validation import unknown

MAX_ROWS = 256
"""Completions that are sampled in one batch, unless a single prompt asks for more: a bound for its memory."""

MAX_STEP_THREADS = 16
"""More than the sandbox has workers: while some of them run programs, other steps read and judge theirs."""

Completions = dict[str, tuple[Completion, ...]]
"""The group of each agent."""

Joint = tuple[tuple[int, ...], ...]
"""For each joint sample the index of each agent's completion, in the order of the agents."""


@dataclass(frozen=True)
class Start:
    """Arguments of `reset` for one episode. With neither field the environment's running generator decides."""

    seed: int | None = None
    """The seed of `reset`."""
    task_id: str | None = None
    """The option `task_id` of `reset`."""


class Parent(NamedTuple):
    """The joint sample that led to a group."""

    group: int
    """Position in the rollout of the group before."""
    sample: int
    """Index of the joint sample of that group which was played."""


@dataclass(frozen=True)
class Group:
    """One decision: G completions of each agent, and the J joint samples that were made of them."""

    turn: int
    """Counted from 0."""
    parent: Parent | None
    """`None` at the start of an episode."""
    prompts: dict[str, str]
    """The prompt of each agent."""
    completions: Completions
    """G completions of each agent."""
    joint: Joint
    """The J joint samples."""
    rewards: tuple[float, ...]
    """The team's reward of each joint sample."""
    infos: tuple[dict[str, float], ...]
    """The numbers in the first agent's infos of each joint sample."""
    chosen: int | None = None
    """The joint sample that alone goes on or, after the last turn, stands for the group; `None` in a tree."""
    drafts: tuple[Completions, ...] = ()
    """Earlier answers to the prompts, which were not played."""
    stopped_early: bool = False
    """True if the mean reward reached the threshold while the episode could go on."""


@dataclass(frozen=True)
class Rollout:
    """All groups that were grown from one start."""

    start: Start
    groups: tuple[Group, ...]
    """Turn by turn, each after its parent."""
    final: Mapping[str, Any] | None = None
    """The episode along the chosen samples, where there are such and the environment records it."""

    @property
    def turns(self) -> list[list[Group]]:
        """The groups of each turn."""
        count = 1 + self.groups[-1].turn
        return [[group for group in self.groups if group.turn == turn] for turn in range(count)]

    @property
    def last(self) -> list[Group]:
        """The groups that led to no other."""
        parents = {group.parent.group for group in self.groups if group.parent is not None}
        return [group for index, group in enumerate(self.groups) if index not in parents]

    @property
    def stopped_early(self) -> float:
        """The share of the last groups that stopped early."""
        return float(np.mean([group.stopped_early for group in self.last]))


@dataclass
class Stopwatch:
    """Seconds spent, by activity."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, activity: str) -> Iterator[None]:
        """Add the time of a `with` block to `activity`."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - begin
            self.seconds[activity] = self.seconds.get(activity, 0.0) + seconds


def distinct_policies(team: Team) -> dict[str, Policy]:
    """Return the team's policy objects, each named by the agents that share it, such as `aux_0+main_0`."""
    agents: dict[int, list[str]] = {}
    for agent, policy in team.items():
        agents.setdefault(id(policy), []).append(agent)
    return {"+".join(names): team[names[0]] for names in agents.values()}


class Outcome(NamedTuple):
    """The state that a joint sample led to, with its reward."""

    env: TextEnv
    prompts: dict[str, str]
    """Empty once the episode is over."""
    reward: float
    info: dict[str, float]


def check_team(env: TextEnv, team: Team, group_size: int) -> None:
    """Raise an error unless there is a policy for each agent, and something to sample.

    Raises:
        KeyError: If an agent has no policy, or a policy no agent.
        ValueError: If `group_size` is below 1.
    """
    if group_size < 1:
        raise ValueError(f"group_size must be at least 1, got {group_size}")
    for agent in team:
        if agent not in env.possible_agents:
            raise KeyError(unknown("agent", agent, env.possible_agents))
    for agent in env.possible_agents:
        if agent not in team:
            raise KeyError(f"the team has no policy for agent {agent!r}; it has {sorted(team)}")


def begin(env: TextEnv, start: Start) -> tuple[TextEnv, dict[str, str]]:
    """Reset the environment to a start; return a branch of it, and the first prompts."""
    options = None if start.task_id is None else {"task_id": start.task_id}
    prompts, _ = env.reset(seed=start.seed, options=options)
    return branch(env), _prompts(prompts, env.agents)


def sample(
    team: Team,
    envs: Sequence[TextEnv],
    prompts: Sequence[Mapping[str, str]],
    group_size: int,
) -> list[dict[str, tuple[Completion, ...]]]:
    """Sample G completions for each state and agent; one batch for each policy or engine, if not too large.

    Args:
        team: A policy for each agent.
        envs: The environment in each of the states.
        prompts: The prompts of the agents in each of the states.
        group_size: G.

    Raises:
        ValueError: If a policy returns another number of completions.
    """
    samples: list[dict[str, tuple[Completion, ...]]] = [{} for _ in prompts]
    for policies in _batches(team):
        rows = [
            (state, agent)
            for state, texts in enumerate(prompts)
            for agent in texts
            if any(team[agent] is policy for policy in policies)
        ]
        size = max(1, MAX_ROWS // group_size)
        parts = [rows[first : first + size] for first in range(0, len(rows), size)]
        groups = [g for part in parts for g in _generate(team, envs, prompts, part, group_size)]
        for (state, agent), completions in zip(rows, groups, strict=True):
            if len(completions) != group_size:
                raise ValueError(
                    f"the policy of {agent!r} returned {len(completions)} completions of a prompt "
                    f"where {group_size} were asked for"
                )
            samples[state][agent] = tuple(completions)
    return [
        {agent: completions[agent] for agent in texts}
        for texts, completions in zip(prompts, samples, strict=True)
    ]


def _batches(team: Team) -> list[list[Policy]]:
    """Return the distinct policies; those of one engine stand together."""
    batches: dict[int, list[Policy]] = {}
    for policy in distinct_policies(team).values():
        key = policy.engine if isinstance(policy, EnginePolicy) else policy
        batches.setdefault(id(key), []).append(policy)
    return list(batches.values())


def _generate(
    team: Team,
    envs: Sequence[TextEnv],
    prompts: Sequence[Mapping[str, str]],
    rows: Sequence[tuple[int, str]],
    group_size: int,
) -> list[list[Completion]]:
    policy, texts = team[rows[0][1]], [prompts[state][agent] for state, agent in rows]
    if isinstance(policy, PrivilegedPolicy):
        agents = [agent for _, agent in rows]
        return policy.generate_in([envs[state] for state, _ in rows], agents, group_size)
    if isinstance(policy, EnginePolicy):
        requests = [(team[agent], text) for (_, agent), text in zip(rows, texts, strict=True)]
        return policy.engine.generate(requests, group_size)
    return policy.generate(texts, group_size)


def step(
    envs: Sequence[TextEnv],
    samples: Sequence[Mapping[str, tuple[Completion, ...]]],
    joints: Sequence[Joint],
) -> list[list[Outcome]]:
    """Play every joint sample of every state in a branch of its own.

    Forks step in threads, since a step may wait for other processes; nothing promises that of deep
    copies, nor of wrappers that keep something.

    Raises:
        TypeError: If a prompt isn't a text.
        ValueError: If the agents' rewards differ, or some agents leave before the others.
    """
    steps: list[tuple[TextEnv, dict[str, str]]] = []
    for env, completions, joint in zip(envs, samples, joints, strict=True):
        for indices in joint:
            pairs = zip(completions.items(), indices, strict=True)
            steps.append((branch(env), {agent: group[g].text for (agent, group), g in pairs}))
    threads = min(MAX_STEP_THREADS, len(steps))
    if threads > 1 and all(map(branches_in_threads, envs)):
        with ThreadPoolExecutor(threads) as pool:
            outcomes = list(pool.map(_step, *zip(*steps, strict=True)))
    else:
        outcomes = [_step(env, actions) for env, actions in steps]
    sizes = [len(joint) for joint in joints]
    ends = np.cumsum(sizes)
    return [outcomes[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _step(env: TextEnv, actions: dict[str, str]) -> Outcome:
    observations, rewards, _, _, infos = env.step(actions)
    if env.agents and set(env.agents) != set(actions):
        raise ValueError(
            f"agents must leave together: {sorted(actions)} acted, {sorted(env.agents)} go on"
        )
    first = next(iter(actions))
    if any(rewards[agent] != rewards[first] for agent in actions):
        raise ValueError(f"the agents of a team must earn the same finite reward, got {rewards}")
    numbers = {k: v for k, v in infos[first].items() if isinstance(v, (Real, np.bool_))}
    info = {key: float(value) for key, value in numbers.items()}
    return Outcome(env, _prompts(observations, env.agents), float(rewards[first]), info)


def _prompts(observations: Mapping[str, Any], agents: Sequence[str]) -> dict[str, str]:
    for agent in agents:
        if not isinstance(observations[agent], str):
            kind = type(observations[agent]).__name__
            raise TypeError(f"the observation of {agent!r} must be a str (a prompt), got {kind}")
    return {agent: observations[agent] for agent in agents}
