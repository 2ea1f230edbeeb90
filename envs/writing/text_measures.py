"""Measures of two texts by their form, in linear time, and the word lists of `tldr-v0` and `arxiv-v0`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass

from llm_decpomdp.envs.datasets.rows import bundled_rows

STOP_WORDS = frozenset(
    """
    a all also an and any are as at bad be been being both but by can could did do does each few first for from
    good great had has have he her here him his how i if in is it its just last left little long low many may me
    might more most much must my new no not now of old on only or other our own right same shall should so some
    such than that the their them then there these they this those to too us very was we were what when where
    which who why will with would you your
    """.split()
)
"""Words that do not count as content."""


TRANSITIONS: Mapping[str, tuple[str, ...]] = {
    row["kind"]: tuple(row["phrases"]) for row in bundled_rows("transitions.jsonl")
}
"""Twelve kinds of transitions with their phrases."""


MATCHINGS = ("substring", "word")
"""Ways to match a transition: anywhere, also inside a word, or as whole words."""

WORD = re.compile(r"\w+")

TOKEN = re.compile(r"\d+(?:[.,]\d+)*|\w+|[.!?…\n]+|[,;:]+")

COMMA, STOP = ",", "."
"""Tokens for marks inside a sentence, and for its end."""

PIECE = re.compile(r"[^\W_]+|[\W_]+")
"""A word, or the gap between two."""

LONGEST_WORD, LONGEST_GAP = 40, 2
"""Maximum number of characters that count of a word, and of the gap between two words."""

CLOSING = "\"')]*\N{RIGHT DOUBLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}"
"""Characters that may follow the final mark of a sentence."""


@dataclass(frozen=True)
class Interval:
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
class TextPair:
    """The two texts of a team."""

    first: str
    second: str

    @property
    def texts(self) -> tuple[str, str]:
        """Both texts."""
        return self.first, self.second

    @property
    def length_ratio(self) -> float:
        """Ratio of the texts' lengths in characters, second / first; 0 if the first is empty."""
        return len(self.second) / len(self.first) if self.first else 0.0

    @property
    def visible_ratio(self) -> float:
        """Ratio of the texts' `visible_length`; 0 if the first is empty."""
        first = visible_length(self.first)
        return visible_length(self.second) / first if first else 0.0

    @property
    def vocabulary_ratio(self) -> float:
        """Ratio of the numbers of different words, including stop words; 0 if the first is empty."""
        first = len(set(words(self.first)))
        return len(set(words(self.second))) / first if first else 0.0

    @property
    def overlap(self) -> float:
        """Jaccard index of the content words: shared / all; 1 if neither text has any."""
        first, second = content(self.first), content(self.second)
        return len(first & second) / len(first | second) if first | second else 1.0


def count_tokens(text: str) -> int:
    """Count the pieces of a text between white space."""
    return len(text.split())


def visible_length(text: str) -> int:
    r"""Count the characters of a text without padding.

    Any white space counts as one character, and invisible characters do not count. At most `LONGEST_WORD`
    characters of a word count, and `LONGEST_GAP` of a gap between two.

    Examples:
        >>> visible_length("No, never."), visible_length(" No,   never.\n\n"), visible_length("No, never.....")
        (10, 10, 11)
    """
    visible = "".join(letter for letter in text if letter.isprintable() or letter.isspace())
    pieces = PIECE.findall(" ".join(visible.split()))
    # Otherwise rows of dots or one endless word would make a text longer.
    return sum(min(len(p), LONGEST_WORD if p[0].isalnum() else LONGEST_GAP) for p in pieces)


def ends_with_sentence(text: str) -> bool:
    """Check whether a text ends with the final mark of a sentence, optionally followed by quotes or brackets.

    Examples:
        >>> ends_with_sentence('He said "no."'), ends_with_sentence("He said"), ends_with_sentence("")
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
    return [
        token if token[0].isalnum() or token[0] == "_" else COMMA if token[0] in ",;:" else STOP
        for token in TOKEN.findall(text)
    ]


def content(text: str) -> Set[str]:
    """Return the different words of a text without stop words."""
    return set(words(text)) - STOP_WORDS


def transitions(text: str, matching: str) -> list[str]:
    """Return the kinds of transitions in a text.

    `substring` also finds them inside words, as "so" in "soap", like CoMLRL. `word` finds whole words, and
    ignores the characters between the words of a phrase.
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
