"""Exact values of small games: all pure joint policies are enumerated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

MAX_POLICIES = 100_000
"""Largest number of joint policies that are enumerated."""

View = tuple[int, str]
"""Number of a player and what it knows."""

Policy = Mapping[View, int]
"""A pure joint policy: the action in each view."""


@dataclass(frozen=True)
class GameEnd:
    """An end of a game."""

    probability: float
    """Probability of its chance events."""
    choices: Policy
    """Actions of the players on the way."""
    points: float
    """Return of every player."""


def outcomes(state: Any, known: Callable[[str], str] = str) -> list[GameEnd]:
    """Return all ends of a game without simultaneous moves.

    Args:
        state: The first state.
        known: From the information state of a player to the part of it that the player can use.
    """
    return list(_outcomes(state, known, 1.0, {}))


def _outcomes(
    state: Any, known: Callable[[str], str], probability: float, choices: dict[View, int]
) -> Iterator[GameEnd]:
    if state.is_terminal():
        yield GameEnd(probability, choices, float(state.returns()[0]))
    elif state.is_chance_node():
        for action, share in state.chance_outcomes():
            yield from _outcomes(state.child(action), known, probability * share, choices)
    else:
        view = view_of(state, known)
        for action in state.legal_actions():
            yield from _outcomes(state.child(action), known, probability, {**choices, view: action})


def view_of(state: Any, known: Callable[[str], str] = str) -> View:
    """Return what the player at move knows."""
    player = state.current_player()
    return player, known(state.information_state_string(player))


def best_policy(ends: list[GameEnd], fixed: Policy | None = None) -> tuple[Policy, float]:
    """Return the best pure joint policy and its expected return.

    Mixed policies are no better, since all players have the same payoff.

    Args:
        ends: All ends of the game.
        fixed: Actions in views of players that do not choose.

    Raises:
        ValueError: If there are too many policies.
    """
    actions: dict[View, set[int]] = {}
    for end in ends:
        for view, action in end.choices.items():
            actions.setdefault(view, set()).add(action)
    options = [
        [fixed[view]] if fixed and view in fixed else sorted(actions[view]) for view in actions
    ]
    if (count := prod(map(len, options))) > MAX_POLICIES:
        raise ValueError(
            f"the game has {count} joint policies; at most {MAX_POLICIES} are enumerated"
        )
    policies = (dict(zip(actions, choice, strict=True)) for choice in product(*options))
    best = max(policies, key=lambda policy: value(ends, policy))
    return best, value(ends, best)


def value(ends: list[GameEnd], policy: Policy) -> float:
    """Return the expected return of a pure joint policy."""
    return sum(
        end.probability * end.points
        for end in ends
        if all(policy[view] == action for view, action in end.choices.items())
    )


def random_value(ends: list[GameEnd], count: Callable[[View], int]) -> float:
    """Return the expected return of players that draw each legal action with equal probability.

    Args:
        ends: All ends of the game.
        count: Number of legal actions in a view.
    """
    return sum(
        end.points * end.probability / prod(count(view) for view in end.choices) for end in ends
    )
