"""Actions of games as text: what prompts show, and how an answer is read."""

from __future__ import annotations

import re
from typing import Any

from llm_decpomdp.envs.source_code.extraction import find_answer

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

    Parentheses around names, blanks between words, and capital letters do not count.
    """
    legal = {
        (
            str(action) if form == "numbers" else _plain(state.action_to_string(player, action))
        ): action
        for action in state.legal_actions(player)
    }
    # The longest name first, so that `2S` is not read in `2S doubled` where both are legal.
    names = "|".join(map(re.escape, sorted(legal, key=len, reverse=True)))
    mentions = re.findall(rf"(?<![\w+-])(?:{names})(?!\w)", _plain(find_answer(text).text))
    return legal[mentions[-1]] if mentions else None


def _plain(text: str) -> str:
    """Return a text in lower case, with single blanks and without parentheses at its ends."""
    return " ".join(text.lower().split()).strip("()")
