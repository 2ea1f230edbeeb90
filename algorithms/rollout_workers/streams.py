"""Random streams of the policies of a team, each named by what it is for."""

from __future__ import annotations

from llm_decpomdp.algorithms.rollouts.sampling import distinct_policies
from llm_decpomdp.policy import Seedable, Team
from llm_decpomdp.seeding import stream


def seed_policies(team: Team, seed: int, *names: str | int, index: int) -> None:
    """Give every policy that samples a stream of its own.

    Args:
        team: A policy for each agent.
        seed: The run's seed.
        *names: Purpose of the streams, such as `("update", 3)`.
        index: Which part of the purpose: a batch, or a process.
    """
    for name, policy in distinct_policies(team).items():
        if isinstance(policy, Seedable):
            policy.seed(int(stream(seed, *names, name, index).integers(2**32)))
