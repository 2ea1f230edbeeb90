from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from llm_decpomdp.benchmarks.analysis.credit import DRAWN, Coalition, coalitions, orders, shapley


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def random_game(players: int) -> dict[Coalition, float]:
    """A worth for each coalition."""
    draw = np.random.default_rng(players)
    return {
        frozenset(some): float(draw.normal())
        for size in range(players + 1)
        for some in combinations(range(players), size)
    }


def by_the_formula(worth: dict[Coalition, float], players: int, player: int) -> float:
    """The sum over all coalitions without the player, weighted by factorials."""
    return sum(
        math.factorial(len(some))
        * math.factorial(players - len(some) - 1)
        / math.factorial(players)
        * (worth[some | {player}] - worth[some])
        for some in worth
        if player not in some
    )


def test_of_one_left_and_two_right_gloves_the_left_one_gets_two_thirds() -> None:
    def pairs(some: Coalition) -> float:
        return float(0 in some and len(some) > 1)

    assert shapley(pairs, orders(3, rng())) == pytest.approx([2 / 3, 1 / 6, 1 / 6])


@pytest.mark.parametrize("players", [1, 2, 3, 4, 6])
def test_up_to_six_players_get_what_the_formula_says(players: int) -> None:
    worth = random_game(players)
    expected = [by_the_formula(worth, players, one) for one in range(players)]
    assert shapley(worth.__getitem__, orders(players, rng())) == pytest.approx(expected)


@pytest.mark.parametrize("players", [2, 5, 7, 8])
def test_the_values_add_up_to_what_all_earn_beyond_nobody(players: int) -> None:
    worth = random_game(players)
    values = shapley(worth.__getitem__, orders(players, rng()))
    everyone = frozenset(range(players))
    assert math.fsum(values) == pytest.approx(worth[everyone] - worth[frozenset()])


@pytest.mark.parametrize("players", [4, 7])
def test_a_player_that_adds_nothing_gets_nothing(players: int) -> None:
    worth = random_game(players)
    values = shapley(lambda some: worth[some - {1}], orders(players, rng()))
    assert values[1] == 0.0
    assert all(abs(value) > 1e-6 for one, value in enumerate(values) if one != 1)


def test_players_that_add_the_same_get_the_same() -> None:
    worth = random_game(4)

    def alike(some: Coalition) -> float:  # players 0 and 3 count as one another
        return worth[frozenset(range(len(some & {0, 3})))] + worth[some & {1, 2}]

    values = shapley(alike, orders(4, rng()))
    assert values[0] == pytest.approx(values[3])
    assert values[1] != pytest.approx(values[2])


def test_of_many_players_drawn_orders_come_near_the_formula() -> None:
    worth = {some: value + 2.0 * sum(some) for some, value in random_game(7).items()}
    drawn = orders(7, rng())
    assert len(drawn) == DRAWN
    expected = [by_the_formula(worth, 7, one) for one in range(7)]
    four_errors = 4 * math.sqrt(2 / DRAWN)  # of the difference of two normal worths
    assert shapley(worth.__getitem__, drawn) == pytest.approx(expected, abs=four_errors)


def test_drawn_orders_are_those_of_their_generator() -> None:
    assert orders(8, rng()) == orders(8, rng()) != orders(8, np.random.default_rng(1))


def test_of_few_players_every_coalition_is_asked_for_and_none_twice() -> None:
    found = coalitions(orders(4, rng()))
    assert len(found) == len(set(found)) == 2**4
    assert (found[0], found[-1]) == (frozenset(), frozenset(range(4)))
