"""A server that says the same whenever it is asked the same, noticed."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

ENOUGH_PROMPTS = 3
"""So many prompts, each with equal answers only, are no accident."""

MOST_PROMPTS = 10_000
"""Prompts after which nothing is noticed any more."""

LEAST_CHARACTERS = 40
"""Shorter answers may well be equal, such as a number or a yes."""


class Variety:
    """Watches whether the answers to a prompt ever differ.

    A prompt counts as soon as it was answered twice, by equal texts of at least `LEAST_CHARACTERS`: in one request
    for several samples, or in requests with different seeds. A single prompt with two different texts shows
    that the server varies, and ends the watch; so does the verdict, after `ENOUGH_PROMPTS`. Threads may share it.
    """

    def __init__(self) -> None:
        # By hashes of prompts, what a text was drawn with and its hash; none once the watch is over.
        self._first: dict[int, tuple[tuple[int, int], int]] | None = {}
        self._equal: set[int] = set()
        self._lock = Lock()

    def is_missing(self, prompt: str, seed: int, texts: Sequence[str]) -> bool:
        """Take note of the answers to one request; true once, when enough prompts have equal ones."""
        with self._lock:
            for place, text in enumerate(texts):
                if self._first is None:
                    return False
                drawn, first = self._first.setdefault(hash(prompt), ((seed, place), hash(text)))
                if first != hash(text):
                    self._first = None
                elif drawn != (seed, place) and len(text) >= LEAST_CHARACTERS:
                    self._equal.add(hash(prompt))
            if self._first is not None and len(self._first) > MOST_PROMPTS:
                self._first = None
            if self._first is None or len(self._equal) < ENOUGH_PROMPTS:
                return False
            self._first = None
            return True
