"""Measures of a text against its source: content, names and numbers, copying.

| measure     | is                                                                                  |
|-------------|-------------------------------------------------------------------------------------|
| `words`     | share of the text's different content words whose stem occurs in the source         |
| `coverage`  | share of the source's different content words whose stem occurs in the text         |
| `entities`  | share of the source's names and numbers that occur in the text; 1 where it has none |
| `phrases`   | share of the text's pairs of neighbouring words, one of them a content word, that   |
|             | stand so in the source                                                              |
| `unfounded` | the numbers of the text that the source does not have                               |
| `copied`    | share of the text's words in runs of `RUN` and more that stand so in the source     |
| `repeated`  | share of the text's runs of three words that it has had before                      |

A stem is a word without one of a few endings. A name is a word with a capital letter that is not the first of its
sentence. Numbers up to twelve may be spelled out. All of it takes time linear in the length of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

from llm_decpomdp.envs.writing.text_measures import words
from llm_decpomdp.envs.writing.word_lists import STOP_WORDS

RUN = 8
"""Length of a run of words that counts as copied, not shared by chance."""

ENDINGS = ("ing", "ed", "es", "ly", "s", "e", "y")

SHORTEST_STEM = 4

NUMBER = re.compile(r"\d+(?:[.,]\d+)*")

NAME = re.compile(r"[^\W\d_]\w+")

SENTENCE_END = (".", "!", "?", ":", '"', "(", "“")

SPELLED = dict(
    zip(
        "zero one two three four five six seven eight nine ten eleven twelve".split(),
        map(str, range(13)),
        strict=True,
    )
)


@dataclass(frozen=True)
class Grounding:
    """Measures of one text; see the table above."""

    words: float
    coverage: float
    entities: float
    phrases: float
    unfounded: tuple[str, ...]
    copied: float
    repeated: float


class Source:
    """A source, with its words, stems, names, numbers and runs."""

    def __init__(self, text: str) -> None:
        self.words = words(text)
        self.stems = stems(self.words)
        self.entities = names(text) | numbers(text)
        self.numbers = numbers(text) | {SPELLED[word] for word in self.words if word in SPELLED}
        self.pairs = set(pairwise(self.words))

    @cached_property
    def runs(self) -> set[tuple[str, ...]]:
        """Runs of `RUN` words."""
        return set(_runs(self.words, RUN))

    def ground(self, text: str) -> Grounding:
        """Compare a text with the source."""
        spoken = words(text)
        text_stems = stems(spoken)
        pairs = [pair for pair in pairwise(spoken) if not STOP_WORDS.issuperset(pair)]
        mentioned = names(text) | numbers(text) | {word.capitalize() for word in spoken}
        return Grounding(
            words=_share(text_stems & self.stems, text_stems),
            coverage=_share(text_stems & self.stems, self.stems),
            entities=_share(self.entities & mentioned, self.entities, empty=1.0),
            phrases=sum(pair in self.pairs for pair in pairs) / len(pairs) if pairs else 0.0,
            unfounded=tuple(sorted(numbers(text) - self.numbers)),
            copied=self._copied(spoken),
            repeated=repeated(spoken),
        )

    def _copied(self, spoken: Sequence[str]) -> float:
        """Return the share of words that lie in a run which the source has too."""
        inside, end = 0, 0
        for start, run in enumerate(_runs(spoken, RUN)):
            if run in self.runs:
                inside += start + RUN - max(end, start)
                end = start + RUN
        return inside / len(spoken) if spoken else 0.0


@lru_cache(maxsize=1024)
def source(text: str) -> Source:
    """Read a source, once for equal texts."""
    return Source(text)


def stem(word: str) -> str:
    """Strip a word of its ending, where at least `SHORTEST_STEM` letters are left."""
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= SHORTEST_STEM:
            return word[: -len(ending)]
    return word


def stems(spoken: Iterable[str]) -> set[str]:
    """Return the different stems of content words, without numbers."""
    return {stem(word) for word in spoken if word not in STOP_WORDS and not word[0].isdigit()}


def numbers(text: str) -> set[str]:
    """Return the numbers of a text: `1,450` is 1450, and `12.50` is 12.5."""
    return {_plain(number) for number in NUMBER.findall(text)}


def _plain(number: str) -> str:
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", number):
        number = number.replace(",", "")
    whole, point, rest = number.partition(".")
    decimals = rest.rstrip("0") if rest.isdigit() else rest
    return f"{whole}{point}{decimals}" if decimals else whole


def names(text: str) -> set[str]:
    """Return the words with a capital letter inside of sentences, as `Petra` of "I asked Petra"."""
    result, begins = set(), True
    for piece in text.split():
        match = NAME.search(piece)
        if match and match[0][0].isupper() and not begins and match[0].lower() not in STOP_WORDS:
            result.add(match[0].capitalize())
        begins = piece.endswith(SENTENCE_END)
    return result


def repeated(spoken: Sequence[str]) -> float:
    """Return the share of runs of three words that occurred before in the text."""
    runs = list(_runs(spoken, 3))
    return 1.0 - len(set(runs)) / len(runs) if runs else 0.0


def _runs(spoken: Sequence[str], length: int) -> list[tuple[str, ...]]:
    return [tuple(spoken[i : i + length]) for i in range(len(spoken) - length + 1)]


def _share(part: set[str], whole: set[str], empty: float = 0.0) -> float:
    return len(part) / len(whole) if whole else empty
