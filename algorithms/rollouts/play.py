"""Random streams of updates and evaluations, and whole episodes, as evaluations play them.

The rollouts of a rollout batch are a function of the weights, and of seed, update, index and starts. They do not
depend on the process that samples it, nor on earlier batches: equal seeds give equal rollouts with any number of
workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from llm_decpomdp.algorithms.rollouts.collection import Act, collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, TextEnv, Timer
from llm_decpomdp.algorithms.rollouts.rollout_options import TrainerOptions
from llm_decpomdp.branching import seed_noise
from llm_decpomdp.policy import Seedable, Team, distinct_policies, policy_attribute
from llm_decpomdp.seeding import stream


def seed_update(
    env: TextEnv,
    team: Team,
    options: TrainerOptions,
    update: int,
    index: int,
    round: int = 0,
    newest: np.random.Generator | None = None,
    purpose: str = "update",
) -> np.random.Generator:
    """Give policies and environment the random streams of a rollout batch, by its index among all processes.

    Returns the random stream of branch selection and partners. Without `rollout_batch_size`, rounds of dynamic
    sampling go on with the streams of the update, and with the `newest` one.
    """
    if newest is not None and round and options.rollout_batch_size is None:
        return newest
    names = (update, "round", round) if round else (update,)
    seed_streams(env, team, options.seed, purpose, *names, index=index)
    # "handoff" is the former name of branch selection: another one would give runs another stream.
    name = "handoff" if purpose == "update" else f"{purpose} handoff"
    return stream(options.seed, name, *names, index)


def seed_streams(env: TextEnv, team: Team, seed: int, *names: str | int, index: int) -> None:
    """Give every policy that samples, and a noisy environment, its own random stream; see `seed_policies`."""
    seed_policies(team, seed, *names, index=index)
    seed_noise(env, seed, *names, index)


def seed_policies(team: Team, seed: int, *names: str | int, index: int) -> None:
    """Give every policy that samples its own random stream, for a purpose such as `("update", 3)`.

    `index` is that of a rollout batch, or the rank of a process.
    """
    for name, policy in distinct_policies(team).items():
        if isinstance(policy, Seedable):
            policy.seed(int(stream(seed, *names, name, index).integers(2**32)))
        begin_batch = policy_attribute(policy, "begin_batch")
        if begin_batch is not None:
            begin_batch(seed, *names)  # without the index, so that batches of one update draw alike


@contextmanager
def gather_weights(team: Team) -> Iterator[None]:
    """Let policies in shards have all weights in this block; all processes enter and leave it together."""
    policies = distinct_policies(team).values()
    for gather in filter(None, [policy_attribute(policy, "gather") for policy in policies]):
        gather()
    yield
    for end in filter(None, [policy_attribute(policy, "finish_sampling") for policy in policies]):
        end()


def play_episodes(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    at_a_time: int | None = None,
    timer: Timer | None = None,
    *,
    act: Act | None = None,
) -> list[Rollout]:
    """Play one episode from each start, as evaluations do: every group has one joint sample.

    Args:
        env: Any text environment; it is reset, and played in branches of it.
        team: A policy for each agent.
        starts: Episode starts.
        at_a_time: Episodes that are played in step; all if `None`.
        timer: Adds up the seconds of `act`, and those spent `stepping`.
        act: Samples the agents' completions, one of each; by default every policy samples.

    Raises:
        KeyError: If an agent has no policy. Otherwise the same errors as `collect_rollouts`.
    """
    size = at_a_time or max(1, len(starts))
    rollouts: list[Rollout] = []
    for first in range(0, len(starts), size):
        batch = starts[first : first + size]
        rollouts += collect_rollouts(env, team, batch, group_size=1, act=act, timer=timer)
    return rollouts
