"""Episodes of one completion a turn, as evaluations play them: in training, and of trained teams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llm_decpomdp.algorithms.rollouts.act import Act
from llm_decpomdp.algorithms.rollouts.chain import rollout_chains
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, Stopwatch
from llm_decpomdp.policy import Team


def play_episodes(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    *,
    act: Act | None = None,
    at_a_time: int | None = None,
    stopwatch: Stopwatch | None = None,
) -> list[Rollout]:
    """Play one episode from each start: a chain whose groups have one joint sample.

    Args:
        env: Any text environment; it is reset, and played in branches of it.
        team: A policy for each agent.
        starts: Episode starts.
        act: The way to the agents' completions, one of each; by default every policy samples.
        at_a_time: Episodes that are played in step; all if none is given.
        stopwatch: Adds the seconds of `act`, and those spent `stepping`.

    Raises:
        KeyError: If an agent has no policy.
        TypeError: If a prompt isn't a text.
        ValueError: If the agents' rewards differ, or some agents leave before the others.
    """
    rng = np.random.default_rng(0)  # never matters: a group of one has nothing to choose from
    size = at_a_time or max(1, len(starts))
    rollouts: list[Rollout] = []
    for first in range(0, len(starts), size):
        batch = starts[first : first + size]
        rollouts += rollout_chains(
            env, team, batch, group_size=1, act=act, rng=rng, stopwatch=stopwatch
        )
    return rollouts
