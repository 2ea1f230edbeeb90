"""The Shapley value: what each player of a cooperative game adds to its worth, on average over all orders.

For a game of N players with the worth v(S) of each coalition S,

    phi_i = sum over S without i of |S|! (N - |S| - 1)! / N! * (v(S with i) - v(S))

(Shapley 1953, A value for n-person games). The weights count orders of the players: phi_i is the mean of what i
adds to those before it, over all N! orders. So it is computed here; where there are too many orders, over some
that are drawn at random, without bias (Castro, Gomez and Tejada 2009, Computers and Operations Research 36, 1726).

Either way the values add up to v(all) - v(none), as they do in every single order. A player that adds nothing to
any coalition gets nothing. Players that add the same to every coalition get the same; of drawn orders, on average.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np

EXACT = 6
"""Most players for whom all orders are taken: 720 of them, over 64 coalitions."""

DRAWN = 200
"""Orders that are drawn for more players: at most 200 N coalitions."""

Order = tuple[int, ...]
Coalition = frozenset[int]
"""Players, counted from 0."""


def orders(players: int, rng: np.random.Generator) -> list[Order]:
    """Return all orders of up to `EXACT` players; of more, `DRAWN` random ones.

    Args:
        players: N, at least 1.
        rng: Draws them.
    """
    if players <= EXACT:
        return list(permutations(range(players)))
    return [tuple(map(int, rng.permutation(players))) for _ in range(DRAWN)]


def coalitions(sample: Sequence[Order]) -> list[Coalition]:
    """Return the coalitions whose worth some orders ask for: the beginnings of each, from nobody to all."""
    starts = {frozenset(order[:size]) for order in sample for size in range(len(order) + 1)}
    return sorted(starts, key=lambda coalition: (len(coalition), sorted(coalition)))


def shapley(worth: Callable[[Coalition], float], sample: Sequence[Order]) -> list[float]:
    """Return the value of each player.

    Args:
        worth: v, defined for `coalitions(sample)`.
        sample: Orders of all players, from `orders`.
    """
    gains: list[list[float]] = [[] for _ in sample[0]]
    for order in sample:
        worths = [worth(frozenset(order[:size])) for size in range(len(order) + 1)]
        for player, before, after in zip(order, worths, worths[1:], strict=False):
            gains[player].append(after - before)
    return [math.fsum(values) / len(values) for values in gains]
