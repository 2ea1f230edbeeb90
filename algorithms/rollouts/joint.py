"""Joint samples: completions of the agents that are played together."""

from __future__ import annotations

from itertools import product

from llm_decpomdp.algorithms.rollouts.rollout import Joint
from llm_decpomdp.validation import unknown

JOINT_MODES = ("aligned", "cross")


def aligned(group_size: int, num_agents: int) -> Joint:
    """Pair the g-th completions of all agents: G joint samples."""
    return tuple((g,) * num_agents for g in range(group_size))


def cross(group_size: int, num_agents: int) -> Joint:
    """Combine every completion of each agent with every one of the others: G^N joint samples."""
    return tuple(product(range(group_size), repeat=num_agents))


def joint_samples(mode: str, group_size: int, num_agents: int) -> Joint:
    """Return the joint samples of a mode.

    Raises:
        KeyError: If the mode is unknown.
    """
    if mode not in JOINT_MODES:
        raise KeyError(unknown("joint_mode", mode, JOINT_MODES))
    return (aligned if mode == "aligned" else cross)(group_size, num_agents)
