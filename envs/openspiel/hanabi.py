"""A player of Hanabi with five rules, which reads the views of OpenSpiel.

It plays sure cards, reveals what a partner can play, and discards what is useless, or else the oldest. It does not
read anything into what partners reveal or leave out, so it needs no agreement with them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from llm_decpomdp.picture import Picture, panel, picture

COPIES = {1: 3, 2: 2, 3: 2, 4: 2, 5: 1}
"""Copies of each card, by rank."""

SURE = 1.0 - 1e-9
"""Least probability that counts as certain."""

MAX_HINTS = 8
"""Information tokens of the team at most."""

COLORS = {
    "R": ("#d64545", "red"),
    "Y": ("#e6c229", "yellow"),
    "G": ("#4caf50", "green"),
    "W": ("#e8e8e8", "white"),
    "B": ("#4285f4", "blue"),
}
"""Color of CSS and name of each color, as pictures show them."""

Card = tuple[str, int]
"""Color and rank."""


@dataclass(frozen=True)
class HeldCard:
    """A card in a hand."""

    card: Card | None
    """`None` in the player's own hand."""
    possible: frozenset[Card]
    """All cards that it can be, as its owner knows."""
    is_hinted: bool
    """True if its color or rank was revealed."""


@dataclass(frozen=True)
class HanabiView:
    """The view of a player."""

    hints: int
    """Information tokens."""
    fireworks: Mapping[str, int]
    """Rank that each color has reached."""
    hands: Sequence[Sequence[HeldCard]]
    """The player's own hand, then those of the next players; the oldest card first."""
    discards: Counter[Card]

    def is_playable(self, card: Card) -> bool:
        """Check whether a card is next in its firework."""
        return self.fireworks[card[0]] + 1 == card[1]

    def is_useless(self, card: Card) -> bool:
        """Check whether a card will never be playable."""
        color, rank = card
        height = self.fireworks[color]
        below = range(height + 1, rank)
        return rank <= height or any(self.discards[color, low] == COPIES[low] for low in below)


def read_view(text: str) -> HanabiView | None:
    """Read the view in a prompt; `None` if there is none."""
    if not (match := re.search(r"^Life tokens: \d+$.*^Discards:[^\n]*", text, re.M | re.S)):
        return None
    head, _, rest = match[0].partition("Hands:\n")
    hands_text, _, tail = rest.partition("Deck size:")
    _, hints = map(int, re.findall(r"tokens: (\d+)", head))
    fireworks = {color: int(rank) for color, rank in re.findall(r"([A-Z])(\d)", head)}
    hands = [
        [_read_card(line) for line in hand.splitlines() if "||" in line]
        for hand in hands_text.split("-----\n")
    ]
    # A player's own hand is the one below the mark; OpenSpiel lists it first.
    discards = Counter(_card(name) for name in tail.partition("Discards:")[2].split())
    return HanabiView(hints, fireworks, hands, discards)


def draw_fireworks(text: str) -> Picture:
    """Return a picture of the fireworks of a view: a column for each color, with rank 1 at the bottom."""
    line = text.partition("Fireworks:")[2].partition("\n")[0]
    heights = {color: int(rank) for color, rank in re.findall(r"([A-Z])(\d)", line)}
    rows = [
        "".join(color if height >= rank else " " for color, height in heights.items())
        for rank in sorted(COPIES, reverse=True)
    ]
    return picture([panel("Fireworks", rows)], COLORS)


def _card(name: str) -> Card:
    return name[0], int(name[1])


def _read_card(line: str) -> HeldCard:
    """Read a card such as `B1 || X1|BG1`."""
    name, _, knowledge = line.partition(" || ")
    hint, _, possible = knowledge.partition("|")
    colors, ranks = re.findall("[A-Z]", possible), re.findall(r"\d", possible)
    return HeldCard(
        None if name == "XX" else _card(name),
        frozenset((color, int(rank)) for color in colors for rank in ranks),
        hint != "XX",
    )


def choose(prompt: str) -> str:
    """Return the action of the rules after a prompt; empty if it shows no view of Hanabi."""
    view = read_view(prompt)
    return "" if view is None else next(_actions(view, unseen(view)))


def unseen(view: HanabiView) -> Counter[Card]:
    """Count the copies of each card that the player does not see."""
    visible = Counter(view.discards)
    visible.update(slot.card for hand in view.hands for slot in hand if slot.card)
    for color, height in view.fireworks.items():
        visible.update((color, rank) for rank in range(1, height + 1))
    return Counter(
        {
            (color, rank): count - visible[color, rank]
            for color in view.fireworks
            for rank, count in COPIES.items()
        }
    )


def share(slot: HeldCard, left: Counter[Card], of_kind: Callable[[Card], bool]) -> float:
    """Return the probability that a card of the player's own hand is of a kind.

    `left` has the copies of each card that the player does not see.
    """
    weights = {card: left[card] for card in slot.possible if left[card] > 0}
    return sum(n for card, n in weights.items() if of_kind(card)) / max(1, sum(weights.values()))


def _actions(view: HanabiView, left: Counter[Card]) -> Iterator[str]:
    """Yield the actions of the rules, the first that applies first; the last one always applies."""
    hand = view.hands[0]
    chances = [share(slot, left, view.is_playable) for slot in hand]
    if max(chances) >= SURE:
        yield f"(Play {chances.index(max(chances))})"
    if view.hints > 0:
        yield from _useful_reveal(view)
    if view.hints < MAX_HINTS:
        wastes = [share(slot, left, view.is_useless) for slot in hand]
        if max(wastes) >= SURE:
            yield f"(Discard {wastes.index(max(wastes))})"
        unhinted = [place for place, slot in enumerate(hand) if not slot.is_hinted]
        yield f"(Discard {(unhinted or [0])[0]})"
    yield f"(Reveal player +1 rank {max(slot.card[1] for slot in view.hands[1] if slot.card)})"


def _useful_reveal(view: HanabiView) -> Iterator[str]:
    """Yield the reveal that makes most playable cards known as playable, or else tells most about one."""
    best, action = 0, ""
    for offset, hand in enumerate(view.hands[1:], 1):
        playable = {slot.card for slot in hand if slot.card and view.is_playable(slot.card)}
        for color, rank in sorted(playable):
            for name, matches in (
                (f"color {color}", lambda card, color=color: card[0] == color),
                (f"rank {rank}", lambda card, rank=rank: card[1] == rank),
            ):
                gain = _gain(view, hand, matches)
                if gain > best:
                    best, action = gain, f"(Reveal player +{offset} {name})"
    if action:
        yield action


def _gain(view: HanabiView, hand: Sequence[HeldCard], matches: Callable[[Card], bool]) -> int:
    """Return what a reveal tells about the playable cards of a hand; cards that get known count most."""
    gain = 0
    for slot in hand:
        if slot.card and view.is_playable(slot.card):
            after = {card for card in slot.possible if matches(card) == matches(slot.card)}
            before = slot.possible
            if len(after) < len(before) and not all(map(view.is_playable, before)):
                is_sure = all(map(view.is_playable, after))
                gain += 100 if is_sure else len(before) - len(after)
    return gain
