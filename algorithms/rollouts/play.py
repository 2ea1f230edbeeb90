"""Whole episodes, as evaluations play them."""

from __future__ import annotations

from collections.abc import Sequence

from llm_decpomdp.algorithms.rollouts.collection import Act, collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, TextEnv, Timer
from llm_decpomdp.policy import Team


def play_episodes(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    *,
    act: Act | None = None,
    at_a_time: int | None = None,
    timer: Timer | None = None,
) -> list[Rollout]:
    """Play one episode from each start, as evaluations do: every group has one joint sample.

    Args:
        env: Any text environment; it is reset, and played in branches of it.
        team: A policy for each agent.
        starts: Episode starts.
        act: Samples the agents' completions, one of each; by default every policy samples.
        at_a_time: Episodes that are played in step; all if `None`.
        timer: Adds up the seconds of `act`, and those spent `stepping`.

    Raises:
        KeyError: If an agent has no policy. Otherwise the same errors as `collect_rollouts`.
    """
    size = at_a_time or max(1, len(starts))
    rollouts: list[Rollout] = []
    for first in range(0, len(starts), size):
        batch = starts[first : first + size]
        rollouts += collect_rollouts(env, team, batch, group_size=1, act=act, timer=timer)
    return rollouts
