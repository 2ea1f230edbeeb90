"""Measures of a text against its source: content, names and numbers, word order, copying.

| measure     | meaning                                                                             |
|-------------|-------------------------------------------------------------------------------------|
| `words`     | share of the text's different content words whose stem occurs in the source         |
| `coverage`  | share of the source's different content words whose stem occurs in the text         |
| `entities`  | share of the source's names and numbers that occur in the text; 1 if it has none    |
| `phrases`   | share of the text's pairs of neighboring words or marks, not both stop words, that  |
|             | are also neighbors in the source                                                    |
| `order`     | mean information of the text's other pairs, in nats (below)                         |
| `cohesion`  | share of the text's pairs of neighboring content words of the source (other words   |
|             | between them are ignored) that share a sentence of the source                       |
| `extracted` | share of the text's words in runs of two or more that also occur in the source: the |
|             | coverage of extractive fragments (Grusky et al. 2018, arXiv 1804.11283)             |
| `unfounded` | numbers of the text that the source does not have                                   |
| `copied`    | share of the text's content words in runs of `RUN` or more that follow each other   |
|             | in the source; stop words, numbers and words that the source lacks are ignored      |
| `repeated`  | share of the text's runs of three words that occurred before in the text            |

A stem is a word without one of a few endings. A name is a word with a capital letter that is not the first of its
sentence. Numbers up to twelve may be spelled out. All measures take time linear in the length of the texts.

`order` measures English word order: the mean pointwise mutual information of the classes of neighboring words
(Church and Hanks 1990, *Computational Linguistics* 16, 22; for classes Brown et al. 1992, *Computational
Linguistics* 18, 467). The classes are each of the `FREQUENT` words that most of the bundled sources contain,
numbers, names, a few endings such as *-ing*, all other words, commas, and ends of sentences. Let p(b | a) be the
share of class b among the tokens that follow class a, and p(b) its share of all tokens. The information

    log p(b | a) / p(b)

is positive if b follows a more often than it follows other classes, as a noun follows *the*, and negative if it
follows a less often, as a verb follows *the*. The shares are counted in all bundled posts and abstracts, without
their references. `PRIOR` observations of p(b) are added to the observations of p(b | a).

The mean is over pairs of neighbors that are not neighbors in the source, because a copied pair says nothing about
the text's own order. It is about -0.9 for source words in random order, and 0.1 for the bundled references. `FEW`
pairs with information 0 are added, because a short text may have few such pairs.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from llm_decpomdp.envs.writing.tasks import ABSTRACTS, POSTS
from llm_decpomdp.envs.writing.text_measures import COMMA, STOP, STOP_WORDS, tokens, words

FREQUENT = 150
"""Number of words with their own class."""

CLASS_ENDINGS = ("ing", "ed", "ly", "s")
"""Endings with their own class, if at least three letters precede them."""

PRIOR = 5.0

FEW = 6.0

NUMBER_CLASS, NAME_CLASS, OTHER_CLASS = "<number>", "<name>", "<other>"


class WordOrder:
    """Counts of the pairs of neighboring classes in some texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        sequences = [tokens(text) for text in texts]
        different = [{token.lower() for token in sequence} for sequence in sequences]
        counts = Counter(word for text in different for word in text if word[0].isalpha())
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        self.frequent = frozenset(ranked[:FREQUENT])
        pairs = [pair for sequence in sequences for pair in pairwise(self.classes(sequence))]
        self.pairs = Counter(pairs)
        self.first = Counter(first for first, _ in pairs)
        self.second = Counter(second for _, second in pairs)
        self.size = len(pairs) + len(self.second)

    def classes(self, sequence: Sequence[str]) -> list[str]:
        """Return the classes of tokens, after a `STOP`."""
        result = [STOP]
        for token in sequence:
            result.append(self.token_class(token, begins=result[-1] == STOP))
        return result

    def token_class(self, token: str, begins: bool) -> str:
        """Return the class of a token; `begins` is true for the first one of a sentence."""
        word = token.lower()
        if word in self.frequent or word in (COMMA, STOP):
            return word
        if word[0].isdigit():
            return NUMBER_CLASS
        if token[0].isupper() and not begins:
            return NAME_CLASS
        endings = (end for end in CLASS_ENDINGS if word.endswith(end) and len(word) >= len(end) + 3)
        return next(endings, OTHER_CLASS)

    def information(self, first: str, second: str) -> float:
        """Return the information of a pair of classes, in nats."""
        # One more observation of each class, so that no share is 0.
        share = (self.second[second] + 1) / self.size
        count = self.pairs[first, second] + PRIOR * share
        return math.log(count / (self.first[first] + PRIOR) / share)

    def mean(self, sequence: Sequence[str], source: Collection[tuple[str, str]]) -> float:
        """Return the mean information of a text's pairs that the source does not have, in nats.

        `source` has the pairs of neighbors of the source, in lower case.
        """
        # The first word follows the end of a sentence, as in `classes`.
        lower = [STOP, *(token.lower() for token in sequence)]
        information = [
            self.information(*classes)
            for classes, pair in zip(pairwise(self.classes(sequence)), pairwise(lower), strict=True)
            if pair not in source
        ]
        return math.fsum(information) / (len(information) + FEW)


@lru_cache(maxsize=1)
def english() -> WordOrder:
    """Return the counts of all bundled posts and abstracts."""
    posts = (str(row["prompt"]) for row in POSTS.bundled())
    abstracts = (str(row["abstract_text"]) for row in ABSTRACTS.bundled())
    return WordOrder([*posts, *abstracts])


RUN = 5
"""Number of equal content words in a row from which they count as copied."""

ENDINGS = ("ing", "ed", "es", "ly", "s", "e", "y")

SHORTEST_STEM = 4

NUMBER = re.compile(r"\d+(?:[.,]\d+)*")

NAME = re.compile(r"[^\W\d_]\w+")

MARKS = frozenset({COMMA, STOP})

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
    order: float
    cohesion: float
    extracted: float
    unfounded: tuple[str, ...]
    copied: float
    repeated: float


class SourceText:
    """A source with its words, stems, names, numbers and runs."""

    def __init__(self, text: str) -> None:
        self.words = words(text)
        self.content = content_stems(self.words)
        self.stems = set(self.content)
        self.entities = names(text) | numbers(text)
        self.numbers = numbers(text) | {SPELLED[word] for word in self.words if word in SPELLED}
        sequence = [STOP, *(token.lower() for token in tokens(text))]
        self.pairs = set(pairwise(sequence))
        self.runs = set(_runs(self.content, RUN))
        self.sentences: dict[str, set[int]] = {}
        for place, sentence in enumerate(_sentences(sequence)):
            for part in content_stems(sentence):
                self.sentences.setdefault(part, set()).add(place)

    def ground(self, text: str) -> Grounding:
        """Compare a text with the source."""
        spoken = words(text)
        text_content = content_stems(spoken)
        text_stems, shared = set(text_content), [s for s in text_content if s in self.stems]
        sequence = tokens(text)
        lower = [token.lower() for token in sequence]
        # `names` leaves out the first word of a sentence, which may be a name too.
        mentioned = names(text) | numbers(text) | {word.capitalize() for word in spoken}
        return Grounding(
            words=_share(text_stems & self.stems, text_stems),
            coverage=_share(text_stems & self.stems, self.stems),
            entities=_share(self.entities & mentioned, self.entities, empty=1.0),
            phrases=self._phrases(lower),
            order=english().mean(sequence, self.pairs),
            cohesion=self._cohesion(shared),
            extracted=self._extracted_share(lower),
            unfounded=tuple(sorted(numbers(text) - self.numbers)),
            copied=self._copied_words(shared) / len(text_content) if text_content else 0.0,
            repeated=repetition(spoken),
        )

    def _phrases(self, sequence: Sequence[str]) -> float:
        """Return the share of pairs, except those of stop words, that are two neighboring words of the source."""
        pairs = [pair for pair in pairwise(sequence) if not STOP_WORDS.issuperset(pair)]
        return _mean(pair in self.pairs and MARKS.isdisjoint(pair) for pair in pairs)

    def _cohesion(self, shared: Sequence[str]) -> float:
        """Return the share of different neighbors that are in one sentence of the source."""
        pairs = [pair for pair in pairwise(shared) if pair[0] != pair[1]]
        return _mean(not self.sentences[a].isdisjoint(self.sentences[b]) for a, b in pairs)

    def _extracted_share(self, sequence: Sequence[str]) -> float:
        """Return the share of words with a neighbor that they also have in the source."""
        hits = [pair in self.pairs and MARKS.isdisjoint(pair) for pair in pairwise(sequence)]
        # Not strict: an empty sequence has no pairs, but one entry in each of the other lists.
        sides = zip(sequence, [False, *hits], [*hits, False], strict=False)
        return _mean(before or behind for token, before, behind in sides if token not in MARKS)

    def _copied_words(self, shared: Sequence[str]) -> int:
        """Count the words in runs that the source also has."""
        inside, end = 0, 0
        for start, run in enumerate(_runs(shared, RUN)):
            if run in self.runs:
                # Overlapping runs count once.
                inside += start + RUN - max(end, start)
                end = start + RUN
        return inside


@lru_cache(maxsize=1024)
def source(text: str) -> SourceText:
    """Return the source with this text; cached, since all completions of a task share it."""
    return SourceText(text)


def stem(word: str) -> str:
    """Remove the ending of a word if at least `SHORTEST_STEM` letters are left."""
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= SHORTEST_STEM:
            return word[: -len(ending)]
    return word


def content_stems(spoken: Iterable[str]) -> list[str]:
    """Return the stems of content words in order, without numbers."""
    return [stem(word) for word in spoken if word not in STOP_WORDS and not word[0].isdigit()]


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
    """Return the words with a capital letter inside sentences, such as `Petra` in "I asked Petra"."""
    result, begins = set(), True
    for piece in text.split():
        match = NAME.search(piece)
        if match and match[0][0].isupper() and not begins and match[0].lower() not in STOP_WORDS:
            result.add(match[0].capitalize())
        begins = piece.endswith(SENTENCE_END)
    return result


def repetition(spoken: Sequence[str]) -> float:
    """Return the share of runs of three words that occurred before in the text."""
    runs = list(_runs(spoken, 3))
    return 1.0 - len(set(runs)) / len(runs) if runs else 0.0


def _runs(spoken: Sequence[str], length: int) -> list[tuple[str, ...]]:
    return [tuple(spoken[i : i + length]) for i in range(len(spoken) - length + 1)]


def _sentences(sequence: Sequence[str]) -> list[list[str]]:
    sentences: list[list[str]] = [[]]
    for token in sequence:
        if token == STOP:
            sentences.append([])
        elif token != COMMA:
            sentences[-1].append(token)
    return sentences


def _mean(values: Iterable[bool]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def _share(part: set[str], whole: set[str], empty: float = 0.0) -> float:
    return len(part) / len(whole) if whole else empty
