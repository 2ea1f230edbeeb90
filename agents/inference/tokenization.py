"""Stop strings and control tokens.

A completion ends with the token that completes a stop string. This token is learned like any other; the text ends
before the stop string, as with servers. The searched text has special tokens, so that a stop string can name one.

A control token is a special token of the tokenizer, or an added token that the chat template writes. Tokenizers
find control tokens anywhere in a text. In the text of a task, or of another agent, a control token would end the
user's turn or begin a new turn. So the letters of a control token in a text are encoded one by one. The tokens of
all other texts stay the same. `apply_chat_template(sanitize_control_tokens=True)` of transformers is not enough:
it takes no prefill and no text without a template, and raises an error for tokenizers that merge the letters into
a control token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

Decode = Callable[[Sequence[int]], str]
"""Turns token ids into text."""


def first_stop(text: str, stops: Sequence[str]) -> tuple[int, int] | None:
    """Return begin and end of the first stop string in a text; `None` without one."""
    places = [(at, at + len(stop)) for stop in stops if (at := text.find(stop)) >= 0]
    return min(places, default=None)


def stop_length(
    tokens: Sequence[int], stops: Sequence[str], decode: Decode, searched: int = 0
) -> int | None:
    """Return the number of tokens up to the end of the first stop string; `None` without one.

    The first `searched` tokens are known to have none.
    """
    if not first_stop(decode(tokens), stops):
        return None
    lengths = range(searched + 1, len(tokens) + 1)
    return next((n for n in lengths if first_stop(decode(tokens[:n]), stops)), None)


class StopSearch:
    """Finds stop strings in tokens that are added to a row; reads only rows with a token that may end one."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._texts: dict[int, str] = {}

    def find(self, tokens: Sequence[int], newest: int, stops: Sequence[str]) -> int | None:
        """Return `stop_length`, where all but the `newest` last tokens are known to have no stop string."""
        searched = len(tokens) - newest
        if not any(self._may_end(token, stops) for token in tokens[searched:]):
            return None
        return stop_length(tokens, stops, self._decode, searched)

    def _may_end(self, token: int, stops: Sequence[str]) -> bool:
        if token not in self._texts:
            # Twice, because some decoders drop the blank of a text's first token.
            self._texts[token] = self._decode((token, token))
        text = self._texts[token]
        # A part of a character shows as U+FFFD.
        return "\ufffd" in text or any(stop[-1] in text for stop in stops)


class TokenDecoder:
    """Turns tokens into texts, by a tokenizer of transformers."""

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
        # Decoded together with the prefill, since some decoders drop the blank of a text's first token.
        before = self.tokenizer(prefill, add_special_tokens=False).input_ids if prefill else []
        start, whole = decode(before), decode([*before, *tokens])
        return whole.removeprefix(start) if whole.startswith(start) else decode(tokens)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without special ones."""
        return self.decode_whole(tokens, skip_special_tokens=True)

    def decode_whole(self, tokens: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Return the text of tokens with special ones, in which stop strings are searched."""
        text: str = self.tokenizer.decode(
            tokens, skip_special_tokens=skip_special_tokens, clean_up_tokenization_spaces=False
        )
        return text


BREAK = "\ufdd0"
"""Stands between two letters that must not become one token; Unicode keeps it free for such use."""


def control_pattern(tokenizer: Any, template: str | None) -> re.Pattern[str]:
    """Return a pattern that matches the text of any control token."""
    tokens = [
        token.content
        for token in tokenizer.added_tokens_decoder.values()
        if token.special or (template and token.content in template)
    ]
    tokens = [token for token in tokens if len(token) > 1 and not is_text(token)]
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")  # (?!) matches nothing


def is_text(token: str) -> bool:
    """Check whether an added token is blanks or a word, which a template writes as text."""
    return not re.search(r"[^\s\w]", token)


def break_control_tokens(text: str, pattern: re.Pattern[str]) -> str:
    """Put `BREAK` between the letters of each control token in a text; half a surrogate pair is a `ValueError`."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"a text has the lone surrogate {text[error.start]!r} at position {error.start}, in "
            f"{text[max(0, error.start - 20) : error.start + 20]!r}. It is not a character, and tokenizers cannot "
            "encode it: correct the data, or replace it by text.encode('utf-8', 'replace').decode()"
        ) from None
    return pattern.sub(lambda found: BREAK.join(found[0]) + BREAK, text)


def encode_broken(tokenizer: Any, text: str) -> list[int]:
    """Encode a text of `break_control_tokens`, without the special tokens that the tokenizer adds."""
    first, *rest = text.split(BREAK)
    ids: list[int] = tokenizer(first, add_special_tokens=False).input_ids
    for piece in filter(None, rest):
        ids = ids + _encode_piece(tokenizer, piece)
    return ids


def _encode_piece(tokenizer: Any, piece: str) -> list[int]:
    """Encode a piece in the middle of a text: tokenizers such as Llama 2's put a blank before a whole text."""
    ids: list[int] = tokenizer(piece, add_special_tokens=False).input_ids
    if tokenizer.decode([*ids, *ids], clean_up_tokenization_spaces=False) == piece * 2:
        return ids
    line: list[int] = tokenizer("\n", add_special_tokens=False).input_ids
    whole: list[int] = tokenizer("\n" + piece, add_special_tokens=False).input_ids
    return whole[len(line) :] if whole[: len(line)] == line else ids
