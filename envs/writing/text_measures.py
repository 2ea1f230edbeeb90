"""Measures of two texts by their form, all in time linear in their length."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass

from llm_decpomdp.envs.writing.word_lists import STOP_WORDS, TRANSITIONS

MATCHINGS = ("substring", "word")
"""Ways to match a transition: anywhere, even inside a word, or as whole words."""

WORD = re.compile(r"\w+")

TOKEN = re.compile(r"\d+(?:[.,]\d+)*|\w+|[.!?…\n]+|[,;:]+")

COMMA, STOP = ",", "."
"""Tokens of the marks inside of a sentence, and of its end."""

PIECE = re.compile(r"[^\W_]+|[\W_]+")
"""A word, or the gap between two."""

LONGEST_WORD, LONGEST_GAP = 40, 2
"""Characters that count of a word, and of the marks and white space between two."""

CLOSING = "\"')]*\N{RIGHT DOUBLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}"
"""Characters that may follow the mark that ends a sentence."""


@dataclass(frozen=True)
class Band:
    """A measure's credit: 0 at `low`, rising to 1 at `full`, 1 up to `most`, falling to 0 at `high`."""

    low: float
    full: float
    most: float
    high: float

    def credit(self, value: float) -> float:
        """Return the credit of a value, in [0, 1]."""
        if self.full <= value <= self.most:
            return 1.0
        if value < self.full:
            return max(0.0, (value - self.low) / (self.full - self.low))
        return max(0.0, 1.0 - (value - self.most) / (self.high - self.most))

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Pair:
    """The two texts of a team."""

    first: str
    second: str

    @property
    def texts(self) -> tuple[str, str]:
        """Both texts."""
        return self.first, self.second

    @property
    def length_ratio(self) -> float:
        """Length of the second text divided by that of the first, in characters; 0 without a first."""
        return len(self.second) / len(self.first) if self.first else 0.0

    @property
    def visible_ratio(self) -> float:
        """Ratio of the texts' `visible_length`; 0 without a first."""
        first = visible_length(self.first)
        return visible_length(self.second) / first if first else 0.0

    @property
    def vocabulary_ratio(self) -> float:
        """Ratio of the numbers of different words, stop words included; 0 without a first."""
        first = len(set(words(self.first)))
        return len(set(words(self.second))) / first if first else 0.0

    @property
    def overlap(self) -> float:
        """Jaccard index of the content words, shared ones by all; 1 where neither text has any."""
        first, second = content(self.first), content(self.second)
        return len(first & second) / len(first | second) if first | second else 1.0


def count_tokens(text: str) -> int:
    """Count the pieces into which white space divides a text."""
    return len(text.split())


def visible_length(text: str) -> int:
    r"""Count the characters of a text, without filling.

    White space counts as one character however wide it is, and invisible characters as none. At most
    `LONGEST_WORD` characters of a word count, and `LONGEST_GAP` of a gap between two.

    Examples:
        >>> visible_length("No, never."), visible_length(" No,   never.\n\n"), visible_length("No, never.....")
        (10, 10, 11)
    """
    visible = "".join(letter for letter in text if letter.isprintable() or letter.isspace())
    pieces = PIECE.findall(" ".join(visible.split()))
    return sum(min(len(p), LONGEST_WORD if p[0].isalnum() else LONGEST_GAP) for p in pieces)


def finished(text: str) -> bool:
    """Check whether a text ends with a sentence: a mark, perhaps followed by quotes or brackets.

    Examples:
        >>> finished('He said "no."'), finished("He said"), finished("")
        (True, False, False)
    """
    return text.rstrip().rstrip(CLOSING).endswith((".", "!", "?", "…"))


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, in order."""
    return WORD.findall(text.lower())


def tokens(text: str) -> list[str]:
    """Return the words, numbers and marks of a text: `STOP` ends a sentence or a line, `COMMA` is any other mark.

    Examples:
        >>> tokens("In 2019: 7.4 %, or so!")
        ['In', '2019', ',', '7.4', ',', 'or', 'so', '.']
    """
    matches = TOKEN.findall(text)
    return [token if token[0].isalnum() or token[0] == "_" else _mark(token) for token in matches]


def _mark(token: str) -> str:
    return COMMA if token[0] in ",;:" else STOP


def content(text: str) -> Set[str]:
    """Return the different words of a text that are no stop words."""
    return set(words(text)) - STOP_WORDS


def transitions(text: str, matching: str) -> list[str]:
    """Return the kinds of transitions in a text.

    Args:
        text: The text.
        matching: `substring`: "soap" has "so", as upstream has it. `word`: only whole words count; what stands
            between the words of a phrase does not matter.
    """
    if matching == "substring":
        lower, edge = text.lower(), ""
    else:
        lower, edge = f" {' '.join(words(text))} ", " "
    return [
        kind
        for kind, phrases in TRANSITIONS.items()
        if any(f"{edge}{phrase}{edge}" in lower for phrase in phrases)
    ]
