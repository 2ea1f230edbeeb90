"""Stop strings: texts that end a completion.

A completion ends with the token by which its text first holds a stop string. That token was sampled, and is
learned like any other; the text goes up to the stop string, which it leaves out, as servers do. The text that is
searched has special tokens, so that a stop string can name one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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


class TokenDecoder:
    """Turns tokens into texts.

    Args:
        tokenizer: A tokenizer of transformers.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def before_stop(self, prefill: str, tokens: Sequence[int], stops: Sequence[str]) -> str:
        """Return the text of tokens behind a prefill, up to the first stop string, without special tokens."""
        whole = self._decode_suffix(prefill, tokens, self.decode_whole) if stops else ""
        place = first_stop(whole, stops)
        if place is None:
            return self._decode_suffix(prefill, tokens, self.decode)
        for count in range(len(tokens), -1, -1):  # the tokens that end before the stop string
            head = self._decode_suffix(prefill, tokens[:count], self.decode_whole)
            if len(head) <= place[0] and whole.startswith(head):
                break
        rest = whole[len(head) : place[0]] if self.decode(tokens[count : count + 1]) else ""
        return self._decode_suffix(prefill, tokens[:count], self.decode) + rest

    def _decode_suffix(self, prefill: str, tokens: Sequence[int], decode: Decode) -> str:
        """Return the text of tokens behind a prefill: some decoders drop the blank of a text's first token."""
        before = self.tokenizer(prefill, add_special_tokens=False).input_ids if prefill else []
        start, whole = decode(before), decode([*before, *tokens])
        return whole.removeprefix(start) if whole.startswith(start) else decode(tokens)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without special ones."""
        text: str = self.tokenizer.decode(
            tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def decode_whole(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens with special ones, in which stop strings are searched."""
        text: str = self.tokenizer.decode(tokens, clean_up_tokenization_spaces=False)
        return text
