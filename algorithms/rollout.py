"""Chains of groups: the rollout plan of the learners.

At each turn every agent samples G completions for its prompt. The g-th completions of all agents
form the g-th joint sample; each is played in its own branch of the environment. One branch is
handed on to the next turn, so that a chain of T turns costs G * T joint samples. Works with any
PettingZoo parallel environment whose observations and actions are texts and whose agents share one
reward.
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

from llm_decpomdp.algorithms.text_env import Forkable, Recorded, TextEnv, branch
from llm_decpomdp.naming import unknown
from llm_decpomdp.policy import Completion, Policy, Team

HANDOFFS = ("random", "best")

MAX_STEP_THREADS = 16
"""More than there are workers in the sandbox: while some of them run programs, others are read and judged."""


@dataclass(frozen=True)
class Start:
    """How an episode begins. With neither field the environment's running generator decides."""

    seed: int | None = None
    """The seed of `reset`."""
    task_id: str | None = None
    """The option `task_id` of `reset`."""


@dataclass(frozen=True)
class GroupTurn:
    """One decision, sampled G times from the same state."""

    prompts: dict[str, str]
    """What each agent saw."""
    completions: dict[str, tuple[Completion, ...]]
    """G completions of each agent; those with the same index form one joint sample."""
    rewards: tuple[float, ...]
    """The team's reward of each of the G joint samples."""
    infos: tuple[dict[str, float], ...]
    """The numbers in the first agent's infos of each joint sample."""
    chosen: int
    """Index of the joint sample that goes on or, after the last turn, stands for the group."""


@dataclass(frozen=True)
class Chain:
    """The groups of one episode, turn by turn."""

    start: Start
    turns: tuple[GroupTurn, ...]
    stopped_early: bool
    """Whether the mean reward reached the threshold while the episode could go on."""
    final: Mapping[str, Any] | None
    """The episode along the chosen samples, where the environment records it."""


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
            spent = time.perf_counter() - begin
            self.seconds[activity] = self.seconds.get(activity, 0.0) + spent


def distinct_policies(team: Team) -> dict[str, Policy]:
    """The team's policy objects, each named by the agents that share it, such as `aux_0+main_0`."""
    agents: dict[int, list[str]] = {}
    for agent, policy in team.items():
        agents.setdefault(id(policy), []).append(agent)
    return {"+".join(names): team[names[0]] for names in agents.values()}


def rollout_chains(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    *,
    group_size: int,
    handoff: str = "random",
    early_termination_threshold: float | None = None,
    rng: np.random.Generator,
    stopwatch: Stopwatch | None = None,
) -> list[Chain]:
    """Play one chain for each start, all of them in step.

    Args:
        env: Any text environment; it is reset, and played in branches of it.
        team: A policy for each agent. Agents with the same policy object are sampled in one batch.
        starts: How the chains begin.
        group_size: Joint samples of a turn (G), at least 1.
        handoff: Which joint sample goes on, among those whose episode isn't over: `best` takes the
            first of the highest reward, `random` draws one. All agents go on with the same one.
        early_termination_threshold: A chain stops where its group's mean reward reaches this value;
            `None` never stops one.
        rng: Draws the random handoffs.
        stopwatch: Where to add the seconds spent `sampling` (policies) and `stepping`
            (environment).

    Raises:
        KeyError: If an agent has no policy, or `handoff` is unknown.
        TypeError: If a prompt isn't a text.
        ValueError: If the agents' rewards differ, or some agents leave before the others.
    """
    _check(env, team, group_size, handoff)
    clock = stopwatch if stopwatch is not None else Stopwatch()
    with clock("stepping"):
        chains = [_begin(env, start) for start in starts]
    while live := [chain for chain in chains if chain.prompts]:
        with clock("sampling"):
            samples = _sample(team, [chain.prompts for chain in live], group_size)
        with clock("stepping"):
            groups = _step_groups([chain.env for chain in live], samples)
        for chain, completions, group in zip(live, samples, groups, strict=True):
            rewards = [outcome.reward for outcome in group]
            chosen = _choose(rewards, [bool(o.prompts) for o in group], handoff, rng)
            chain.advance(completions, group, chosen, early_termination_threshold)
    return [chain.record() for chain in chains]


class _Outcome(NamedTuple):
    env: TextEnv
    prompts: dict[str, str]  # empty once the episode is over
    reward: float
    info: dict[str, float]


@dataclass
class _OpenChain:
    start: Start
    env: TextEnv
    prompts: dict[str, str]  # empty once the chain is over
    turns: list[GroupTurn] = field(default_factory=list)
    stopped_early: bool = False

    def advance(
        self,
        completions: dict[str, tuple[Completion, ...]],
        group: Sequence[_Outcome],
        chosen: int,
        threshold: float | None,
    ) -> None:
        rewards = tuple(outcome.reward for outcome in group)
        infos = tuple(outcome.info for outcome in group)
        self.turns.append(GroupTurn(self.prompts, completions, rewards, infos, chosen))
        self.env, self.prompts = group[chosen].env, group[chosen].prompts
        if self.prompts and threshold is not None and float(np.mean(rewards)) >= threshold:
            self.stopped_early, self.prompts = True, {}

    def record(self) -> Chain:
        final = self.env.snapshot().get("episode") if isinstance(self.env, Recorded) else None
        return Chain(self.start, tuple(self.turns), self.stopped_early, final)


def _check(env: TextEnv, team: Team, group_size: int, handoff: str) -> None:
    if group_size < 1:
        raise ValueError(f"group_size must be at least 1, got {group_size}")
    if handoff not in HANDOFFS:
        raise KeyError(unknown("handoff", handoff, HANDOFFS))
    for agent in team:
        if agent not in env.possible_agents:
            raise KeyError(unknown("agent", agent, env.possible_agents))
    for agent in env.possible_agents:
        if agent not in team:
            raise KeyError(f"the team has no policy for agent {agent!r}; it has {sorted(team)}")


def _begin(env: TextEnv, start: Start) -> _OpenChain:
    options = None if start.task_id is None else {"task_id": start.task_id}
    prompts, _ = env.reset(seed=start.seed, options=options)
    return _OpenChain(start, branch(env), _prompts(prompts, env.agents))


def _prompts(observations: Mapping[str, Any], agents: Sequence[str]) -> dict[str, str]:
    for agent in agents:
        if not isinstance(observations[agent], str):
            kind = type(observations[agent]).__name__
            raise TypeError(f"the observation of {agent!r} must be a str (a prompt), got {kind}")
    return {agent: observations[agent] for agent in agents}


def _sample(
    team: Team, prompts: Sequence[Mapping[str, str]], group_size: int
) -> list[dict[str, tuple[Completion, ...]]]:
    """G completions for each chain and agent; one `generate` for each distinct policy."""
    found: list[dict[str, tuple[Completion, ...]]] = [{} for _ in prompts]
    for policy in distinct_policies(team).values():
        rows = [
            (chain, agent)
            for chain, texts in enumerate(prompts)
            for agent in texts
            if team[agent] is policy
        ]
        groups = policy.generate([prompts[chain][agent] for chain, agent in rows], group_size)
        for (chain, agent), completions in zip(rows, groups, strict=True):
            if len(completions) != group_size:
                raise ValueError(
                    f"the policy of {agent!r} returned {len(completions)} completions of a prompt "
                    f"where {group_size} were asked for"
                )
            found[chain][agent] = tuple(completions)
    return [
        {agent: completions[agent] for agent in texts}
        for texts, completions in zip(prompts, found, strict=True)
    ]


def _step_groups(
    envs: Sequence[TextEnv], samples: Sequence[Mapping[str, tuple[Completion, ...]]]
) -> list[list[_Outcome]]:
    """Play every joint sample in a branch of its own.

    Forks step in threads, since a step may wait for other processes; nothing promises that of deep
    copies.
    """
    steps: list[tuple[TextEnv, dict[str, str]]] = []
    sizes = []
    for env, completions in zip(envs, samples, strict=True):
        joint = list(zip(*completions.values(), strict=True))
        for sample in joint:
            texts = [completion.text for completion in sample]
            steps.append((branch(env), dict(zip(completions, texts, strict=True))))
        sizes.append(len(joint))
    threads = min(MAX_STEP_THREADS, len(steps))
    if threads > 1 and all(isinstance(env, Forkable) for env in envs):
        with ThreadPoolExecutor(threads) as pool:
            outcomes = list(pool.map(_step, *zip(*steps, strict=True)))
    else:
        outcomes = [_step(env, actions) for env, actions in steps]
    ends = np.cumsum(sizes)
    return [outcomes[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _step(env: TextEnv, actions: dict[str, str]) -> _Outcome:
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
    return _Outcome(env, _prompts(observations, env.agents), float(rewards[first]), info)


def _choose(
    rewards: Sequence[float], goes_on: Sequence[bool], handoff: str, rng: np.random.Generator
) -> int:
    candidates = [g for g, on in enumerate(goes_on) if on] or list(range(len(rewards)))
    if handoff == "best":
        return max(candidates, key=lambda g: rewards[g])
    return candidates[int(rng.integers(len(candidates)))]
