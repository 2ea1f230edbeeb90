"""Games of OpenSpiel and their states, descriptions for prompts, and actions as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from llm_decpomdp.envs.worlds.commands import PLAIN
from llm_decpomdp.interfaces import Turn
from llm_decpomdp.seeding import stream
from llm_decpomdp.utils.chat_text import find_answer
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

    `actions` is that of the player at move, or of every player where all act.
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


# Descriptions of games for prompts


def legend(game: Any, player: int) -> str:
    """Describe a game to a player: its rules, and how to read its views.

    A game without a description of ours has its long name alone.
    """
    kind, count = game.get_type(), game.num_players()
    role = f"You are player {player} of the players 0 to {count - 1} of the game {kind.long_name}. "
    common = "All players have the same payoff, so play as a team."
    describe = LEGENDS.get(kind.short_name)
    return f"{role}{common}" + (f"\n{describe(game)}" if describe else "")


def _hanabi(game: Any) -> str:
    return """\
The team builds a firework of each color by playing its cards in the order of their ranks, beginning with 1.
Nobody sees its own cards. At your move you play a card, discard a card, or reveal something about the cards of
another player.
- Play: if the card is next in its firework, the team scores a point. Otherwise the card and a life token are lost.
- Discard: the card is lost, and the team regains an information token.
- Reveal: all cards of one color or rank in the hand of another player. It costs an information token. `player +1`
  is the next player.
Without life tokens the game ends with 0 points. When the deck is empty, each player has one more move. There are
three copies of each card of rank 1, two of the ranks 2, 3 and 4, and one of rank 5.
How to read the view: `R2` among the fireworks is the rank that red has reached. Your hand is below `Cur player`,
then come those of the next players. Card 0 is the oldest. In `B1 || X1|BG1`, `B1` is the card (`XX` for your own),
`X1` is what was revealed of it, and `BG1` lists the colors and ranks that it can still have as its owner knows."""


def _tiny_hanabi(game: Any) -> str:
    """Describe the game with its table of payoffs, which are sorted by cards and then by actions."""
    parameters = game.get_parameters()
    cards, actions = parameters["num_chance"], parameters["num_actions"]
    players = game.num_players()
    text = (
        "Each player has a secret card, d0, d1 and so on. The players act once, one after the other, and see the "
        "earlier actions. Cards and actions decide the payoff."
    )
    if players != 2:
        return text
    payoffs = iter(parameters["payoff"].split(";"))
    lines = []
    for first in range(cards):
        for second in range(cards):
            rows = [
                f"a{mine} ({', '.join(f'a{yours} {next(payoffs)}' for yours in range(actions))})"
                for mine in range(actions)
            ]
            lines.append(f"d{first}, d{second}: {', '.join(rows)}")
    return "\n".join(
        [
            text,
            "Payoffs by the cards of players 0 and 1, the action of player 0, and in parentheses of player 1:",
            *lines,
            "The view `p1:d0 p0:a2` says that player 1 has card d0, and player 0 played a2.",
        ]
    )


LEGENDS: dict[str, Callable[[Any], str]] = {"hanabi": _hanabi, "tiny_hanabi": _tiny_hanabi}
"""Descriptions by the name of the game."""


# Actions as text: what prompts show, and how an answer is read


FORMS = ("names", "numbers")
"""Forms of actions: the game's names, or its numbers."""

FALLBACKS = {
    "first": "An answer without a legal action plays the first one.",
    "end": "An answer without a legal action ends the game with no points.",
}
"""Rules for answers without a legal action, as prompts state them."""


def action_text(state: Any, player: int, action: int, form: str) -> str:
    """Return the answer that plays an action."""
    return str(action) if form == "numbers" else str(state.action_to_string(player, action))


def show_actions(state: Any, player: int, form: str, illegal: str) -> str:
    """Return the legal actions as a paragraph of a prompt."""
    legal = state.legal_actions(player)
    names = [state.action_to_string(player, action) for action in legal]
    if form == "numbers":
        names = [f"{action} {name}" for action, name in zip(legal, names, strict=True)]
    choice = "the number of one of them" if form == "numbers" else "one of them"
    listing = "\n".join(names)
    return f"Your legal actions:\n{listing}\n\nEnd your answer with {choice}. {FALLBACKS[illegal]}"


def read_action(state: Any, player: int, text: str, form: str) -> int | None:
    """Return the last legal action that an answer mentions; `None` if it mentions none.

    Brackets, commas, blanks between words, emphasis and capital letters do not count. In an answer without a whole
    name, `a1` is read as `p0a1`, since rules leave out the player.
    """
    legal: dict[str, int] = {}
    brief: dict[str, int] = {}
    for action in state.legal_actions(player):
        name = _plain(str(state.action_to_string(player, action)))
        # Number and name together are a line of the prompt: a number in the name is no mention of an action.
        keys = (str(action), f"{action} {name}") if form == "numbers" else (name,)
        legal |= dict.fromkeys(filter(None, keys), action)
        if form == "names" and name.startswith(f"p{player}"):
            brief[name.removeprefix(f"p{player}").strip() or name] = action
    answer = _plain(find_answer(text).text)
    action = _last_mention(answer, legal)
    return _last_mention(answer, brief) if action is None else action


def _last_mention(text: str, actions: Mapping[str, int]) -> int | None:
    """Return the action whose name a text mentions last."""
    # The longest name first, so that `2S` is not read in `2S doubled` where both are legal.
    names = "|".join(map(re.escape, sorted(actions, key=len, reverse=True)))
    mentions = re.findall(rf"(?<![\w+-])(?:{names})(?!\w)", text) if actions else []
    return actions[mentions[-1]] if mentions else None


def _plain(text: str) -> str:
    """Return a text without brackets, commas and emphasis, in lower case, with one blank between words."""
    bare = re.sub(r"[(),:]|(?<=\s)-+(?=\s)|(?<!\w)_+|(?<!_)_+(?!\w)", " ", text.translate(PLAIN))
    return " ".join(bare.lower().split())
