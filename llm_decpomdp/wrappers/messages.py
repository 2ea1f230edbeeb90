"""Messages between agents: who hears them, what of them arrives, and how prompts tell of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from llm_decpomdp.options import Options, option

NOISE = "abcdefghijklmnopqrstuvwxyz "
"""Characters of noise in place of messages, where the channel has no alphabet."""

_BRACKET = re.compile(r"[<>\[\]\uff1c\uff1e\ufe64\ufe65\uff3b\uff3d\ufe47\ufe48]+")
"""Brackets, also wide and small ones, that the markup of chats is made of."""


class ChannelOptions(Options):
    """Options of a channel."""

    bandwidth: int = option(80, ge=0)
    """Maximum number of bytes of a message in UTF-8; the rest is cut off. An English letter has one byte, other
    characters have up to four. At 0 no message arrives."""
    alphabet: str = ""
    """Characters that pass; others are left out. Empty: all."""
    topology: str = option("all", choices=("all", "ring", "star"))
    """Listeners of each agent: `all` others, in a `ring` the next one, in a `star` the last agent, who alone is
    heard by everybody."""
    delay: int = option(0, ge=0)
    """Turns of the environment after which a message is heard; at 0 it is heard in the same one."""
    loss: float = option(0.0, ge=0, le=1)
    """Probability that a message does not reach a listener, drawn for each."""
    price: float = option(0.0, ge=0)
    """Reward that each byte of a message costs the team."""
    scramble: bool = False
    """Deliver noise that depends on no message in place of each, empty ones too: a control."""
    wording: str = option("sentences", choices=("sentences", "bare"))
    """Words of prompts: `sentences`, or for models of single letters `bare`: what was heard, then the prompt."""

    def listeners(self, sender: str, agents: Sequence[str]) -> tuple[str, ...]:
        """Return the agents that a message of `sender` is for."""
        hub, place = agents[-1], agents.index(sender)
        if self.topology == "ring":
            return (agents[(place + 1) % len(agents)],)
        if self.topology == "star" and sender != hub:
            return (hub,)
        return tuple(agent for agent in agents if agent != sender)

    def clean_message(self, text: str) -> str:
        """Return a message as it may pass: one line without the markup of chats, no longer than the bandwidth."""
        line, letters = " ".join(_BRACKET.sub(" ", text).split()), self.alphabet
        line = "".join(c for c in line if c.isprintable() and (c in letters or not letters))
        return _cut(" ".join(line.split()), self.bandwidth).rstrip()

    def noise(self, rng: np.random.Generator) -> str:
        """Draw a text that says nothing, not even how long a message was."""
        letters = [c for c in self.alphabet or NOISE if c.isprintable() and not _BRACKET.match(c)]
        size = int(rng.integers(min(1, self.bandwidth), self.bandwidth + 1)) if letters else 0
        text = "".join(letters[i] for i in rng.integers(max(1, len(letters)), size=size))
        return _cut(text, self.bandwidth)


def message_bytes(message: str) -> int:
    """Count the bytes of a message in UTF-8."""
    return len(message.encode())


def _cut(line: str, size: int) -> str:
    """Return the whole characters at the start of a line that have at most `size` bytes together."""
    return line.encode()[:size].decode(errors="ignore")


@dataclass(frozen=True)
class Inbox:
    """The messages of an episode that an agent knows."""

    listeners: tuple[str, ...]
    """Agents that hear it."""
    outgoing: tuple[str, ...]
    """Messages of its own that said something."""
    incoming: tuple[tuple[str, str], ...]
    """Sender and text of each message that has arrived and says something."""

    def bare(self, prompt: str) -> str:
        """Return what was heard, and then a prompt of the environment."""
        return "".join(text for _, text in self.incoming) + prompt

    def word_prompt(self, prompt: str, bandwidth: int | None) -> str:
        """Return the messages, a prompt, and the request for a message of a bandwidth, if one is to be written."""
        lines = [*self._lines(bandwidth is not None), "", prompt]
        if bandwidth is not None:
            to = " and ".join(self.listeners)
            lines += [
                "",
                f"Now write the message to {to} alone, in at most {bandwidth} bytes.",
            ]
        return "\n".join(lines)

    def _lines(self, speaking: bool) -> Iterator[str]:
        if speaking:
            yield "You will have to answer what follows. Before you do, you may send a message."
        to = " and ".join(self.listeners)
        yield from (f"You told {to}: {text}" for text in self.outgoing)
        yield from (f"{sender} told you: {text}" for sender, text in self.incoming)
        if not self.incoming and not speaking:
            yield "No message has reached you."


def transcript(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a paragraph for each entry of a channel's log: what was said, and what arrived."""
    return [
        "\n".join(
            [
                f"--- {entry['sender']} says in turn {entry['turn']} ---\n{entry['text']}",
                *(f"{agent} hears: {text}" for agent, text in entry["heard"].items()),
            ]
        )
        for entry in messages
    ]
