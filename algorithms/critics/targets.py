"""Targets of a critic along a chain: TD(lambda) (Sutton and Barto 2018, chapter 12).

With x_t the state before turn t of a chain, J joint samples with rewards r_j there, x'_j the state after each, and
c the one that goes on:

    y_t = (1/J) sum_j [r_j + discount V(x'_j)] + discount lambda (n/J) (y_{t+1} - V(x'_c))

with n the number of joint samples after which the episode goes on. V is 0 if the episode is over. The last term is
0 if the chain is over. With J = 1 this is TD(lambda). With J > 1 the mean replaces a single sample, and the last
term corrects V by the later returns: c is one of the n joint samples, and the other J - n need no correction.

Assumption: c was drawn at random. Under `handoff=best` values are those of going on with the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


ROUNDING = 1e-12
"""Rounding error of differences, as a share of the largest return."""


class ChainTurn(NamedTuple):
    """A turn of a chain."""

    rewards: Array
    """Reward of each joint sample, (J,)."""
    following: Array
    """Value of the state after each, (J,); 0 where the episode is over."""
    chosen: int
    """The joint sample that goes on."""
    going: float = 1.0
    """Share of the joint samples after which the episode goes on (n/J)."""


ValueTargets = dict[str, list[Array]]
"""Returns of the joint samples, (J,), of each group of a rollout by agent, with the critic's part; less its
baseline where it has one."""


def lambda_targets(chain: Sequence[ChainTurn], discount: float, trace: float) -> list[float]:
    """Return the target y_t of the value before each turn.

    Args:
        chain: All turns.
        discount: Weight of a turn later.
        trace: lambda.
    """
    targets: list[float] = []
    # Backwards, because each target contains the target of the following turn.
    for turn in reversed(chain):
        following = targets[-1] if targets else None
        expected = float(np.mean(turn.rewards + discount * turn.following))
        correction = _correction(turn, following, discount, trace)
        targets.append(expected + turn.going * correction)
    return targets[::-1]


def sample_returns(
    chain: Sequence[ChainTurn], targets: Sequence[float], discount: float, trace: float
) -> list[Array]:
    """Return y of the joint samples of each turn, (J,): TD(lambda) of the one that goes on, TD(0) of its siblings.

        y_j = r_j + discount V(x'_j),    and for c besides    discount lambda (y_{t+1} - V(x'_c))

    With J = 1 these are the targets.

    Args:
        chain: All turns.
        targets: As of `lambda_targets`.
        discount: Weight of a turn later.
        trace: lambda.
    """
    returns = []
    for turn, following in zip(chain, [*targets[1:], None], strict=True):
        values = turn.rewards + discount * turn.following
        values[turn.chosen] += _correction(turn, following, discount, trace)
        returns.append(values)
    return returns


def _correction(turn: ChainTurn, following: float | None, discount: float, trace: float) -> float:
    if following is None:
        return 0.0
    return float(discount * trace * (following - turn.following[turn.chosen]))


def less(returns: Array, baseline: float | Array) -> Array:
    """Subtract a baseline from returns, (J,); what rounding alone makes is 0, or Adam would step along it."""
    difference: Array = returns - baseline
    noise = ROUNDING * float(np.abs(returns).max(initial=0.0))
    return np.where(np.abs(difference) <= noise, 0.0, difference)
