"""Detection of servers that return one text for a prompt, whatever the seed."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

ENOUGH_PROMPTS = 3
"""Prompts with equal answers only, from which on the server is reported."""

MAX_PROMPTS = 10_000
"""Prompts after which the watch ends."""

MIN_CHARACTERS = 40
"""Shorter answers may well be equal, such as a number or a yes."""


class Variety:
    """Watches whether the answers to a prompt ever differ.

    A prompt counts as soon as it was answered twice, by equal texts of at least `MIN_CHARACTERS`: in one request
    for several samples, or in requests with different seeds. A single prompt with two different texts shows
    that the server varies, and ends the watch; so does the verdict, after `ENOUGH_PROMPTS`. Threads may share it.
    """

    def __init__(self) -> None:
        # By the prompt's hash: seed and index of its first text, and that text's hash; None after the watch.
        self._first: dict[int, tuple[tuple[int, int], int]] | None = {}
        self._equal: set[int] = set()
        self._lock = Lock()

    def is_missing(self, prompt: str, seed: int, texts: Sequence[str]) -> bool:
        """Record the answers to one request; return True once, when enough prompts have equal ones."""
        with self._lock:
            for place, text in enumerate(texts):
                if self._first is None:
                    return False
                source, first = self._first.setdefault(hash(prompt), ((seed, place), hash(text)))
                if first != hash(text):
                    self._first = None
                elif source != (seed, place) and len(text) >= MIN_CHARACTERS:
                    self._equal.add(hash(prompt))
            if self._first is not None and len(self._first) > MAX_PROMPTS:
                self._first = None
            if self._first is None or len(self._equal) < ENOUGH_PROMPTS:
                return False
            self._first = None
            return True
