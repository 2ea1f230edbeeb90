"""Prompts with the earlier turns of their agent in the episode, for policies that read them (`history: chat`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from llm_decpomdp.completion import Completion
from llm_decpomdp.policy import policy_attribute

CHAT = "chat"
"""`history` of a policy that reads the earlier turns of its agent in the episode."""


class DialogueTurn(NamedTuple):
    """An earlier turn of an agent in its episode."""

    prompt: str
    answer: Completion
    """What was played, without log-probabilities."""


class Dialogue(str):
    """A prompt with the earlier turns of its agent in the episode, for policies whose `history` is `chat`.

    It is the text of the newest prompt. Two dialogues are equal if their texts and histories are; a text is equal
    to each dialogue that ends with it.

    Args:
        text: The newest prompt.
        history: The earlier turns, the first one first.
    """

    history: tuple[DialogueTurn, ...]

    def __new__(cls, text: str, history: Sequence[DialogueTurn] = ()) -> Dialogue:
        """Return the text with a history."""
        dialogue = super().__new__(cls, text)
        dialogue.history = tuple(history)
        return dialogue

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True and self.history == getattr(
            other, "history", self.history
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def turns_before(prompt: str) -> tuple[DialogueTurn, ...]:
    """Return the history of a prompt; empty for a plain text."""
    return prompt.history if isinstance(prompt, Dialogue) else ()


def turns_after(prompt: str, answer: Completion) -> tuple[DialogueTurn, ...]:
    """Return the history after an answer. A skipped prompt is left out, as its policy did not see it."""
    if answer.skipped:
        return turns_before(prompt)
    memory = Completion(answer.text, answer.tokens, finish_reason=answer.finish_reason)
    return (*turns_before(prompt), DialogueTurn(str(prompt), memory))


def to_messages(prompt: str) -> list[dict[str, str]]:
    """Return a prompt and its history as messages of a chat, each with `role` and `content`."""
    turns = [
        {"role": role, "content": text}
        for turn in turns_before(prompt)
        for role, text in (("user", turn.prompt), ("assistant", turn.answer.text))
    ]
    return [*turns, {"role": "user", "content": str(prompt)}]


def reads_history(policy: object) -> bool:
    """Check whether a policy reads the history of a `Dialogue`."""
    return bool(policy_attribute(policy, "history") == CHAT)
