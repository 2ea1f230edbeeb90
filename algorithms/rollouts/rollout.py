"""Rollouts: groups of joint samples, grown from a start by steps in branches of an environment.

A group is one decision of the team: every agent samples G completions for its prompt, and joint samples are made
of them, each played in a branch of the environment of its own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, SupportsFloat

import numpy as np

from llm_decpomdp.branching import acting_agents, branch, branches_in_threads
from llm_decpomdp.policy import Completion
from llm_decpomdp.testing.rules import short

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.rollouts.views import View

# More than the sandbox has workers: while some of them run programs, other steps read and judge theirs.
MAX_STEP_THREADS = 16
OWN = "own/"  # prefix of infos with points of a single agent, no part of the reward

Completions = dict[str, tuple[Completion, ...]]
"""The group of each agent."""

Joint = tuple[tuple[int, ...], ...]
"""For each joint sample the index of each agent's completion, in the order of the agents."""


@dataclass
class Timer:
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
    anchors: Joint = ()
    """Joint samples whose partners each completion of an agent meets; empty unless they were drawn."""
    view: View | None = None
    """The state before, if views are recorded (`views.py`)."""
    views: tuple[View | None, ...] = ()
    """The state after each joint sample, if views are recorded; `None` where nothing follows."""
    scores: tuple[float, ...] = ()
    """The score of each joint sample by a reward model, if there is one."""
    ended: tuple[bool, ...] = ()
    """True for each joint sample after which the episode is over."""
    own: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Points of single agents for each joint sample, (J,), by agent; empty where the environment gives none."""

    @property
    def going_share(self) -> float:
        """The share of the joint samples after which the episode is not over."""
        return 1 - sum(self.ended) / len(self.joint)


@dataclass(frozen=True)
class Rollout:
    """All groups that were grown from one start."""

    start: Start
    groups: tuple[Group, ...]
    """Turn by turn, each after its parent."""
    final: Mapping[str, Any] | None = None
    """The episode along the chosen samples, where there are such and the environment records it."""
    pooled: bool = False
    """True if completions are compared with those of all groups of their turn: the rollout is several episodes."""
    opponent: Rollout | None = None
    """What another team has played from the same start, where pairs are made with its joint samples."""
    place: int = 0
    """Position of the start among those of its update, where an update has rollout batches; else 0."""
    dialogues: tuple[str, ...] = ()
    """Agents whose prompts have a history (`Dialogue`)."""

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


def reset_branch(env: TextEnv, start: Start) -> tuple[TextEnv, dict[str, str]]:
    """Reset the environment to a start; return a branch of it, and the first prompts."""
    options = None if start.task_id is None else {"task_id": start.task_id}
    prompts, _ = env.reset(seed=start.seed, options=options)
    return branch(env), _prompts(prompts, acting_agents(env))


def step_branches(
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
    _require_agents("observations", observations, acting)
    _require_agents("rewards", rewards, actions)
    _require_agents("infos", infos, [first])
    earned = {agent: _reward(agent, rewards[agent]) for agent in {**actions, **rewards}}
    if any(reward != earned[first] for reward in earned.values()):
        raise ValueError(f"the agents of a team must earn the same finite reward, got {rewards}")
    for agent, info_of in infos.items():
        if not isinstance(info_of, Mapping):
            raise TypeError(
                f"the infos of {agent!r} must be a dictionary, which may be empty, got {short(info_of)}: let "
                "step() of the environment return one"
            )
    # The bool of numpy is no `Real`.
    numbers = {k: v for k, v in infos[first].items() if isinstance(v, (Real, np.bool_))}
    info = {key: float(value) for key, value in numbers.items() if not _is_own(key)}
    own = {a: _own_points(a, infos[a]) for a in infos if any(map(_is_own, infos[a]))}
    cut = [] if env.agents or terminations.get(first) or not truncations.get(first) else actions
    prompts = _prompts(observations, acting)
    return StepOutcome(env, prompts, earned[first], info, own, _prompts(observations, cut))


def _is_own(key: str) -> bool:
    return key.startswith(OWN)


def _require_agents(what: str, values: Any, agents: Collection[str]) -> None:
    """Raise a `TypeError` unless the values of a step are a mapping with all these agents."""
    if not isinstance(values, Mapping) or not values.keys() >= {*agents}:
        raise TypeError(
            f"the {what} of a step must be a mapping with {', '.join(map(repr, agents))} among its keys, got "
            f"{short(values)}: let step() of the environment return one"
        )


def _own_points(agent: str, info: Mapping[str, Any]) -> float:
    points = (_finite(agent, f"info {key!r}", info[key]) for key in info if _is_own(key))
    return math.fsum(points)


def _reward(agent: str, reward: Any) -> float:
    return _finite(agent, "reward", reward)


def _finite(agent: str, what: str, value: Any) -> float:
    """Return a reward, or own points, as a finite number."""
    number: float | None = None
    if isinstance(value, SupportsFloat):
        # Arrays and tensors with several numbers raise one of these.
        with suppress(TypeError, ValueError, RuntimeError):
            number = float(value)
    if number is None:
        raise TypeError(
            f"the {what} of {agent!r} must be a finite number, got {value!r:.80} ({type(value).__name__}): "
            "let step() of the environment return a float for each agent"
        )
    if not math.isfinite(number):
        raise ValueError(
            f"the {what} of {agent!r} must be a finite number, got {number}: let step() of the environment return "
            "one"
        )
    return number


def _prompts(observations: Mapping[str, Any], agents: Collection[str]) -> dict[str, str]:
    for agent in agents:
        if not isinstance(observations[agent], str):
            kind = type(observations[agent]).__name__
            raise TypeError(f"the observation of {agent!r} must be a str (a prompt), got {kind}")
    return {agent: observations[agent] for agent in agents}
