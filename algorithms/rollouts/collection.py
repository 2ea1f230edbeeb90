"""Rollout plans: which joint samples go on to the next turn, and how many completions are sampled there.

Letters: G completions of each agent, J joint samples of a group (`joint.py`: G if aligned), T turns.

| plan       | what goes on                                         | return of a joint sample    | joint samples |
|------------|------------------------------------------------------|-----------------------------|---------------|
| `chain`    | one joint sample of each turn, to a group of G       | its reward                  | J T           |
| `tree`     | every joint sample, to a group of G of its own       | reward, mean of what follows| J + ... + J^T |
| `episodes` | every joint sample, to one completion of each agent  | that of its whole episode   | G T           |

Under `episodes` G whole episodes share a start. The completions of a turn are compared over all of them, though
from the second turn on their prompts differ: no worse on average, since the other episodes do not depend on a
completion, and noisier.

Where a part of the joint samples ends, later turns keep their weight in the expected gradient: see `visit_weights`
(`learning/returns.py`) and, for `episodes`, `pool_advantages` (`learning/baselines.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

import numpy as np

from llm_decpomdp.algorithms.rollouts.environment import Outcome, TextEnv
from llm_decpomdp.algorithms.rollouts.growth import grow
from llm_decpomdp.algorithms.rollouts.joint import pairing
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.rollout_options import HANDOFFS, RolloutOptions
from llm_decpomdp.algorithms.rollouts.sampling import (
    Act,
    Move,
    Prompts,
    Timer,
    check_team,
    sampling,
)
from llm_decpomdp.policy import Team
from llm_decpomdp.validation import unknown


def collect_rollouts(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    options: RolloutOptions,
    *,
    group_size: int,
    rng: np.random.Generator,
    timer: Timer | None = None,
    views: bool = False,
) -> list[Rollout]:
    """Grow a rollout from each start by the plan of the options; arguments and errors as of `collect_rollouts`."""
    if options.plan == "episodes":
        return rollout_episodes(env, team, starts, group_size=group_size, timer=timer)
    settings: dict[str, Any] = {
        "group_size": group_size,
        "joint_mode": options.joint_mode,
        "num_partners": options.num_partners,
        "early_termination_threshold": options.early_termination_threshold,
        "rng": rng,
        "stopwatch": timer,
    }
    if options.plan == "tree":
        return rollout_trees(env, team, starts, **settings)
    return collect_rollouts(env, team, starts, handoff=options.handoff, views=views, **settings)


def collect_rollouts(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    *,
    group_size: int,
    joint_mode: str = "aligned",
    num_partners: int = 1,
    handoff: str = "random",
    early_termination_threshold: float | None = None,
    act: Act | None = None,
    rng: np.random.Generator,
    timer: Timer | None = None,
    views: bool = False,
) -> list[Rollout]:
    """Play one chain for each start, all of them in step.

    Args:
        env: Any text environment; it is reset, and played in branches of it.
        team: A policy for each agent. Agents with the same policy object are sampled in one batch.
        starts: The first state of each chain.
        group_size: Completions of each agent in a group (G), at least 1.
        joint_mode: Completions that are played together: `aligned`, `common` or `cross` (`joint.py`).
        num_partners: Choices of partners (K) under `common`.
        handoff: Rule by which a joint sample goes on, among those whose episode isn't over: `best` takes the
            first of the highest reward, `random` draws one. All agents go on with the same one.
        early_termination_threshold: A chain stops where its group's mean reward reaches this; `None` stops none.
        act: The way to the agents' groups of completions; by default every policy samples them.
        rng: Draws the random handoffs, and the partners of `common`.
        stopwatch: Adds up the seconds spent `sampling` (policies) and `stepping` (environment).
        views: Record each state for a critic.

    Raises:
        KeyError: If an agent has no policy, or `joint_mode` or `handoff` is unknown.
        TypeError: If a prompt isn't a text.
        ValueError: If the agents' rewards differ, some agents leave before the others, or there are not so many
            choices of partners.
    """
    check_team(env, team, group_size)
    if handoff not in HANDOFFS:
        raise KeyError(unknown("handoff", handoff, HANDOFFS))

    def choose(outcomes: Sequence[Outcome]) -> int:
        going = [g for g, outcome in enumerate(outcomes) if outcome.prompts]
        candidates = going or list(range(len(outcomes)))
        if handoff == "best":
            return max(candidates, key=lambda g: outcomes[g].reward)
        return candidates[int(rng.integers(len(candidates)))]

    act = act or sampling(group_size)
    pair = pairing(joint_mode, group_size, len(team), num_partners, rng)
    return grow(env, team, starts, pair, act, choose, early_termination_threshold, timer, views)


def rollout_trees(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    *,
    group_size: int,
    joint_mode: str = "aligned",
    num_partners: int = 1,
    early_termination_threshold: float | None = None,
    rng: np.random.Generator | None = None,
    timer: Timer | None = None,
) -> list[Rollout]:
    """Grow one tree from each start, all of them turn by turn.

    Args:
        env: Any text environment; it is reset, and played in branches of it.
        team: A policy for each agent. Agents with the same policy object are sampled in one batch.
        starts: The first state of each tree.
        group_size: Completions of each agent in a group (G), at least 1.
        joint_mode: Completions that are played together: `aligned`, `common` or `cross` (`joint.py`).
        num_partners: Choices of partners (K) under `common`.
        early_termination_threshold: A group whose mean reward reaches this ends its branch; `None` ends none.
        rng: Draws the partners of `common`, which needs it.
        stopwatch: Adds up the seconds spent `sampling` (policies) and `stepping` (environment).

    Raises:
        KeyError: If an agent has no policy, or `joint_mode` is unknown; and others as of `collect_rollouts`.
    """
    check_team(env, team, group_size)
    act = sampling(group_size)
    pair = pairing(joint_mode, group_size, len(team), num_partners, rng)
    return grow(env, team, starts, pair, act, None, early_termination_threshold, timer)


def rollout_episodes(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    *,
    group_size: int,
    timer: Timer | None = None,
) -> list[Rollout]:
    """Play G whole episodes from each start: a tree whose later groups have one completion of each agent.

    Args:
        env: Any text environment; it is reset, and played in branches of it.
        team: A policy for each agent. Agents with the same policy object are sampled in one batch.
        starts: The first state of each G episodes.
        group_size: Episodes (G), at least 1.
        stopwatch: Adds up the seconds spent `sampling` (policies) and `stepping` (environment).

    Raises:
        KeyError: If an agent has no policy; and others as of `collect_rollouts`.
    """
    check_team(env, team, group_size)
    sizes = chain([group_size], repeat(1))

    def act(
        team: Team, envs: Sequence[TextEnv], prompts: Sequence[Prompts], timer: Timer
    ) -> list[Move]:
        return sampling(next(sizes))(team, envs, prompts, timer)

    rollouts = grow(env, team, starts, None, act, None, None, timer)
    return [replace(rollout, pooled=True) for rollout in rollouts]


def play_episodes(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    *,
    act: Act | None = None,
    at_a_time: int | None = None,
    timer: Timer | None = None,
) -> list[Rollout]:
    """Play one episode from each start, as evaluations do: a chain whose groups have one joint sample.

    Args:
        env: Any text environment; it is reset, and played in branches of it.
        team: A policy for each agent.
        starts: Episode starts.
        act: The way to the agents' completions, one of each; by default every policy samples.
        at_a_time: Episodes that are played in step; all if none is given.
        stopwatch: Adds the seconds of `act`, and those spent `stepping`.

    Raises:
        KeyError: If an agent has no policy; and others as of `collect_rollouts`.
    """
    rng = np.random.default_rng(0)  # never matters: a group of one has nothing to choose from
    size = at_a_time or max(1, len(starts))
    rollouts: list[Rollout] = []
    for first in range(0, len(starts), size):
        batch = starts[first : first + size]
        rollouts += collect_rollouts(env, team, batch, group_size=1, act=act, rng=rng, timer=timer)
    return rollouts
