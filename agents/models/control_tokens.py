"""Control tokens in texts, whose letters are encoded one by one.

A control token is a special token of the tokenizer, or an added token that the chat template writes. Tokenizers
find control tokens anywhere in a text. In the text of a task, or of another agent, a control token would end the
user's turn or begin a new turn. So the letters of a control token in a text are encoded one by one. The tokens of
all other texts stay the same.

`apply_chat_template(sanitize_control_tokens=True)` of transformers is not enough: it takes no prefill and no text
without a template, and raises an error for tokenizers that merge the letters into a control token.
"""

from __future__ import annotations

import re
from typing import Any

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
