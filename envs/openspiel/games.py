"""Games of OpenSpiel and their states: loading, chance events from a seed, and scores from 0 to 1."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from llm_decpomdp.interfaces import Turn
from llm_decpomdp.seeding import stream
from llm_decpomdp.utils.extras import install_command
from llm_decpomdp.validation import unknown


@lru_cache(maxsize=64)
def load_game(name: str) -> Any:
    """Return a game by its name with parameters, such as `hanabi(players=2)`.

    Raises:
        ImportError: If OpenSpiel is not installed.
        KeyError: If there is no such game.
        ValueError: If it has no such parameter, its players have different payoffs, or it cannot be repeated.
    """
    try:
        import pyspiel
    except ImportError:
        raise ImportError(
            f"openspiel:{name} needs OpenSpiel: {install_command('openspiel')}"
        ) from None
    title = name.partition("(")[0]
    if title not in pyspiel.registered_names():
        raise KeyError(unknown("game of OpenSpiel", title, pyspiel.registered_names()))
    try:
        game = pyspiel.load_game(name)
    except pyspiel.SpielError as error:
        raise ValueError(f"openspiel:{name}: {error}") from None
    kind = game.get_type()
    if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
        raise ValueError(f"openspiel:{name} is a mean-field game, which has no players of its own")
    if kind.utility != pyspiel.GameType.Utility.IDENTICAL and game.num_players() > 1:
        raise ValueError(
            f"openspiel:{name} is no common-payoff game: its payoffs are {kind.utility.name}, and the agents of a "
            f"team have one reward. Common-payoff games are {', '.join(common_payoff_names())}"
        )
    if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
        raise ValueError(
            f"openspiel:{name} draws chance events from a generator of its own, so its episodes cannot be repeated"
        )
    if not (kind.provides_information_state_string or kind.provides_observation_string):
        raise ValueError(f"openspiel:{name} has no view of its players as text")
    if not all(abs(bound) < float("inf") for bound in (game.min_utility(), game.max_utility())):
        raise ValueError(f"openspiel:{name} has no bounds of its payoffs, so they cannot be scaled")
    return game


def common_payoff_names() -> list[str]:
    """Return the names of OpenSpiel's common-payoff games that need no parameters."""
    import pyspiel

    identical = pyspiel.GameType.Utility.IDENTICAL
    sampled = pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC
    return [
        kind.short_name
        for kind in pyspiel.registered_games()
        if kind.utility == identical and kind.chance_mode != sampled and kind.default_loadable
    ]


@lru_cache(maxsize=512)
def state_of(game: str, text: str) -> Any:
    """Return the state that `serialize` wrote; it is shared, so clone it before a move."""
    return load_game(game).deserialize_state(text)


@lru_cache(maxsize=512)
def start(game: str, seed: int) -> Any:
    """Return the state at the first decision; it is shared, so clone it before a move."""
    state = load_game(game).new_initial_state()
    draw_chance(state, seed)
    return state


def current_state(game: str, seed: int, turns: Sequence[Turn]) -> Any:
    """Return the state after some turns; it is shared, so clone it before a move."""
    return state_of(game, turns[-1].verdict.details["state"]) if turns else start(game, seed)


def players_at_move(state: Any) -> list[int]:
    """Return the numbers of the players that act next."""
    if state.is_simultaneous_node():
        return list(range(state.num_players()))
    return [state.current_player()]


def advance(state: Any, actions: Sequence[int], seed: int) -> Any:
    """Return the state at the decision after some actions.

    Args:
        state: A state, which does not change.
        actions: The action of the player at move, or of every player where all act.
        seed: Seed of the deal.
    """
    following = state.clone()
    if following.is_simultaneous_node():
        following.apply_actions(list(actions))
    else:
        following.apply_action(actions[0])
    draw_chance(following, seed)
    return following


def draw_chance(state: Any, seed: int) -> None:
    """Draw the chance events up to the next decision.

    Event k of a deal has its own random number. So different actions meet the same luck as far as they can.
    """
    while state.is_chance_node():
        # Chance is a player with a negative number.
        count = sum(entry.player < 0 for entry in state.full_history())
        point = float(stream(seed, "chance", count).random())
        actions, probabilities = zip(*state.chance_outcomes(), strict=True)
        place = int(np.searchsorted(np.cumsum(probabilities), point, side="right"))
        # The last outcome where the probabilities sum to less than 1 by rounding.
        state.apply_action(actions[min(place, len(actions) - 1)])


def scaled_return(state: Any) -> float:
    """Return the return of a state, scaled from the game's minimum and maximum to 0 and 1.

    The minimum is subtracted at the end alone, so that a start without points has the score 0.
    """
    game = state.get_game()
    low, high = game.min_utility(), game.max_utility()
    points = float(state.returns()[0]) - (low if state.is_terminal() else 0.0)
    return float(points / (high - low))
