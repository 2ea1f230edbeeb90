"""Dialogues in a chat template: what it writes between an answer and the next one, found by probe texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Message = Mapping[str, str]
"""A message of a chat template: `role` and `content`."""

Render = Callable[[Sequence[Message]], str]
"""Writes messages by a chat template, up to the place of the next answer."""

PROBES = ("prompt_one", "answer_one", "prompt_two", "answer_two", "prompt_three")
"""Texts of a dialogue that show where a chat template writes its messages."""


def dialogue(texts: Sequence[str]) -> list[Message]:
    """Return the messages of a dialogue, of which the user writes the first."""
    roles = ("user", "assistant")
    return [{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)]


def text_between(render: Render, prompt: str) -> str:
    """Return what a chat template writes behind an answer, if a prompt follows: up to the next answer.

    Blanks before it are left in, as before the end token of Llama 2.
    """
    first, answer = PROBES[:2]
    text = render(dialogue([first, answer, prompt]))
    return text.partition(first)[2].partition(answer)[2]


def check_dialogues(render: Render, system: Sequence[Message], name: str) -> None:
    """Check that each turn of a dialogue only adds to the text of the turns before it, up to blanks.

    Raises:
        ValueError: If the chat template changes what came before a new turn, or takes no dialogues.
    """
    from jinja2 import TemplateError

    try:
        pieces = [
            _split(render([*system, *dialogue(PROBES[:number])]), PROBES[:number])
            for number in (1, 3, 5)
        ]
    except (TemplateError, TypeError) as error:
        raise ValueError(_refusal(name, f"takes no dialogue: {error}")) from error
    if None in pieces:
        raise ValueError(_refusal(name, "leaves out messages of a dialogue"))
    turn_1, turns_2, turns_3 = (
        [piece.strip() for piece in text] for text in pieces if text is not None
    )
    # The pieces of three turns: before a prompt and behind it, in turns.
    head, behind, between, *_ = turns_3
    if [turn_1[0], turns_2[0]] != [head] * 2:
        reason = (
            "writes another beginning when a dialogue goes on, as where the system message moves"
        )
    elif [turn_1[1], turns_2[1], turns_2[3], turns_3[3], turns_3[5]] != [behind] * 5:
        reason = "writes another text behind earlier prompts than behind the newest, as some for reasoning"
    elif [turns_2[2], turns_3[4]] != [between] * 2:
        reason = "writes another text between turns when a dialogue goes on"
    else:
        return
    raise ValueError(_refusal(name, reason))


def _split(text: str, probes: Sequence[str]) -> list[str] | None:
    """Return the pieces of a text around the probes; `None` if one of them is missing."""
    pieces = []
    for probe in probes:
        piece, separator, text = text.partition(probe)
        if not separator:
            return None
        pieces.append(piece)
    return [*pieces, text]


def _refusal(name: str, reason: str) -> str:
    return (
        f"history=chat: the chat template of the model {name!r} {reason}, so that earlier tokens cannot be kept. "
        "Set history=none, or save its tokenizer with a chat_template that only adds to a dialogue"
    )
