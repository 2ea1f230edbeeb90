"""Joint samples of a group: the completions of the agents that are played together.

| mode      | joint samples                                                          | J                         |
|-----------|------------------------------------------------------------------------|---------------------------|
| `aligned` | the g-th completions of all agents                                     | G                         |
| `common`  | each completion of an agent beside the same K choices of its partners' | at most K (1 + N (G - 1)) |
| `cross`   | each completion beside each of the others                              | G^N                       |

Under `aligned` two completions of an agent are compared beside different partners, whose luck is noise that grows
with the team. Under the others they meet the same ones, so that what these earn by themselves cancels out of the
comparison (C3, arXiv 2603.06859; difference rewards, Wolpert and Tumer 2001).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np

from llm_decpomdp.algorithms.rollouts.checks import check_partners
from llm_decpomdp.algorithms.rollouts.collection import Pairing, align
from llm_decpomdp.algorithms.rollouts.rollout_options import JOINT_MODES
from llm_decpomdp.validation import unknown


def cross(group_size: int, num_agents: int) -> Pairing:
    """Combine every completion of each agent with every one of the others: G^N joint samples."""
    return Pairing(tuple(product(range(group_size), repeat=num_agents)))


def common(
    group_size: int, num_agents: int, num_partners: int, rng: np.random.Generator
) -> Pairing:
    """Combine every completion of each agent with the same K choices of its partners' completions.

    The anchors are drawn without repetition among the joint samples whose indices add up to a multiple of G.
    Without any one of its indices such a joint sample is still unique, and all choices of the others occur: so
    the partners of each agent are K different choices, all equally likely, and K = G^(N-1) gives `cross`. What is
    played for several agents is played once.

    Raises:
        ValueError: If there are not so many choices of partners; names their number.
    """
    check_partners(group_size, num_agents, num_partners)
    # Rejection of repeats keeps all choices equally likely; K is at most G^(N-1), so it ends.
    others: set[tuple[int, ...]] = set()
    while len(others) < num_partners:
        others.add(tuple(map(int, rng.integers(group_size, size=num_agents - 1))))
    anchors = sorted((*indices, -sum(indices) % group_size) for indices in others)
    joint = {
        (*anchor[:agent], g, *anchor[agent + 1 :])
        for anchor in anchors
        for agent in range(num_agents)
        for g in range(group_size)
    }
    return Pairing(tuple(sorted(joint)), tuple(anchors))


def pairing(
    mode: str,
    group_size: int,
    num_agents: int,
    num_partners: int = 1,
    rng: np.random.Generator | None = None,
) -> Callable[[int], Pairing]:
    """Return a function from the number of acting agents to the joint samples of a group, each time by new draws.

    A group of fewer agents than the team has fewer choices of partners; where there are less than `num_partners`,
    all of them are played. So the joint samples of an agent that acts alone are its G completions.

    Raises:
        KeyError: If the mode is unknown.
        ValueError: If there are not so many choices of partners, or nothing to draw them with.
    """
    if mode not in JOINT_MODES:
        raise KeyError(unknown("joint_mode", mode, JOINT_MODES))
    if mode != "common":
        return partial(align if mode == "aligned" else cross, group_size)
    check_partners(group_size, num_agents, num_partners)
    if rng is None:
        raise ValueError("joint_mode=common draws partners and needs rng, a generator")
    generator = rng

    def draw(acting: int) -> Pairing:
        return common(group_size, acting, min(num_partners, group_size ** (acting - 1)), generator)

    return draw
