"""Stop strings: texts that end a completion.

A completion ends with the token by which its text first holds a stop string. That token was sampled, and is
learned like any other; the text goes up to the stop string, which it leaves out, as servers do. The text that is
searched has special tokens, so that a stop string can name one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Decode = Callable[[Sequence[int]], str]
"""Turns token ids into text."""


def first_stop(text: str, stops: Sequence[str]) -> tuple[int, int] | None:
    """Return begin and end of the stop string that comes first in a text; `None` if it holds none."""
    places = [(at, at + len(stop)) for stop in stops if (at := text.find(stop)) >= 0]
    return min(places, default=None)


def stop_length(tokens: Sequence[int], stops: Sequence[str], decode: Decode) -> int | None:
    """Return the number of tokens with which a text first holds a stop string; `None` if it holds none."""
    if not first_stop(decode(tokens), stops):
        return None
    lengths = range(1, len(tokens) + 1)
    return next((n for n in lengths if first_stop(decode(tokens[:n]), stops)), None)
