"""Control tokens: text that spells one stays text, and the chat template says which one ends a turn.

A control token is a special token of the tokenizer, or an added token that the chat template writes. Tokenizers
find control tokens anywhere in a text. In the text of a task, or of another agent, a control token would end the
user's turn or begin a new turn. So the letters of a control token in a text are encoded one by one. The tokens of
all other texts stay the same.

`apply_chat_template(sanitize_control_tokens=True)` of transformers is not enough here: it takes no prefill and no
text without a template, and raises an error for tokenizers that merge the letters into a control token.
"""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from typing import Any

logger = logging.getLogger(__name__)

BREAK = "\ufdd0"
"""Stands between two letters that must not become one token; Unicode keeps it free for such use."""

QUESTION, ANSWER, NEXT = "question_of_a_probe", "answer_of_a_probe", "next_question_of_a_probe"
"""Texts that show where a chat template puts messages."""


def control_pattern(tokenizer: Any, template: str | None) -> re.Pattern[str]:
    """Return a pattern that matches the text of any control token.

    Args:
        tokenizer: A tokenizer of transformers.
        template: The chat template, whose added tokens count too; `None` counts special tokens alone.
    """
    tokens = [
        token.content
        for token in tokenizer.added_tokens_decoder.values()
        if token.special or (template and token.content in template)
    ]
    tokens = [token for token in tokens if len(token) > 1 and not _is_text(token)]
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")  # (?!) matches nothing


def _is_text(token: str) -> bool:
    """True of an added token of blanks or of a word, which a template writes as text."""
    return not re.search(r"[^\s\w]", token)


def break_control_tokens(text: str, pattern: re.Pattern[str]) -> str:
    """Put `BREAK` between the letters of each control token in a text.

    Raises:
        ValueError: If the text holds half of a surrogate pair, which is no character.
    """
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
    """Encode a piece of a text as behind other text: some tokenizers put a blank before a text."""
    ids: list[int] = tokenizer(piece, add_special_tokens=False).input_ids
    if tokenizer.decode([*ids, *ids], clean_up_tokenization_spaces=False) == piece * 2:
        return ids
    line: list[int] = tokenizer("\n", add_special_tokens=False).input_ids
    whole: list[int] = tokenizer("\n" + piece, add_special_tokens=False).input_ids
    return whole[len(line) :] if whole[: len(line)] == line else ids


def end_of_turn(tokenizer: Any) -> int | None:
    """Return the token with which the chat template ends the model's turn; `None` if it writes none.

    It is the first added token behind an answer that ends the conversation. A template that writes none there may
    write one between an answer and the next question.
    """
    template = tokenizer.chat_template
    if not template:
        return None
    controls = {
        index
        for index, token in tokenizer.added_tokens_decoder.items()
        if not _is_text(token.content)
    }
    for texts in ([QUESTION, ANSWER], [QUESTION, ANSWER, NEXT]):
        behind = _render_conversation(tokenizer, texts).partition(ANSWER)[2].partition(NEXT)[0]
        ids = tokenizer(behind, add_special_tokens=False).input_ids
        end = next((index for index in ids if index in controls), None)
        if end is not None:
            return int(end)
    return None


def _render_conversation(tokenizer: Any, texts: list[str]) -> str:
    """Render a conversation that a user begins; empty if the template takes no answers."""
    from jinja2 import TemplateError

    messages = [
        {"role": ("user", "assistant")[place % 2], "content": text}
        for place, text in enumerate(texts)
    ]
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False))
    except (TemplateError, TypeError) as error:
        logger.debug(
            "the chat template takes no conversation of %d messages: %s", len(texts), error
        )
        return ""


def end_ids(model: Any, tokenizer: Any) -> list[int]:
    """Return all tokens that end a completion, by generation settings, tokenizer and chat template.

    Raises:
        ValueError: If there is none.
    """
    configured = model.generation_config.eos_token_id
    ids = set(configured if isinstance(configured, list) else [configured])
    ids = ids.union([tokenizer.eos_token_id]) - {None}
    turn = end_of_turn(tokenizer)
    if turn is not None and turn not in ids:
        _log_end_of_turn(str(model.config.name_or_path), tokenizer.convert_ids_to_tokens(turn))
        ids.add(turn)
    if not ids:
        raise ValueError("no token ends a completion: set tokenizer.eos_token")
    return sorted(ids)


def end_id(tokenizer: Any, ends: list[int]) -> int:
    """Return the token that ends a text of the model: that of the chat template, or the tokenizer's own.

    Args:
        tokenizer: The tokenizer.
        ends: The tokens of `end_ids`.
    """
    candidates = (end_of_turn(tokenizer), tokenizer.eos_token_id)
    return next((int(index) for index in candidates if index in ends), ends[0])


@lru_cache
def _log_end_of_turn(name: str, token: str) -> None:
    logger.warning(
        "the chat template of the model %r ends turns with %s, which is not an end token of its tokenizer or its "
        "generation settings. Completions end at it, too",
        name,
        token,
    )
