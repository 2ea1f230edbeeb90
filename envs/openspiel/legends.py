"""Descriptions of games for prompts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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
