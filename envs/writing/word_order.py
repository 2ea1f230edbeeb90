"""English word order of a text: the mean pointwise mutual information of the classes of neighboring words.

The classes are: each of the `FREQUENT` words that most of the bundled sources contain, numbers, names, a few
endings such as *-ing*, all other words, commas, and ends of sentences. Let p(b | a) be the share of class b among
the tokens that follow class a, and p(b) its share of all tokens. The information

    log p(b | a) / p(b)

is positive if b follows a more often than it follows other classes, as a noun follows *the*, and negative if it
follows a less often, as a verb follows *the*. The shares are counted in all bundled posts and abstracts, without
their references. `PRIOR` observations of p(b) are added to the observations of p(b | a).

The mean is over the text's pairs of neighbors that are no neighbors in the source, because a copied pair says
nothing about the text's own order. It is about -0.9 for source words in random order, and 0.1 for the bundled
references. A short text may have few such pairs: `FEW` pairs with information 0 are added.

Sources: Church and Hanks 1990 (*Computational Linguistics* 16, 22) for pointwise mutual information; Brown et al.
1992 (*Computational Linguistics* 18, 467) for pairs of classes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

from llm_decpomdp.envs.writing.tasks import ABSTRACTS, POSTS
from llm_decpomdp.envs.writing.text_measures import COMMA, STOP, tokens

FREQUENT = 150
"""Number of words that are a class each."""

ENDINGS = ("ing", "ed", "ly", "s")
"""Endings of words that are a class, where at least three letters precede them."""

PRIOR = 5.0

FEW = 6.0

NUMBER, NAME, OTHER = "<number>", "<name>", "<other>"


class WordOrder:
    """Shares of the pairs of neighboring classes in some texts."""

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
            result.append(self.class_of(token, begins=result[-1] == STOP))
        return result

    def class_of(self, token: str, begins: bool) -> str:
        """Return the class of a token; `begins` is true for the first one of a sentence."""
        word = token.lower()
        if word in self.frequent or word in (COMMA, STOP):
            return word
        if word[0].isdigit():
            return NUMBER
        if token[0].isupper() and not begins:
            return NAME
        endings = (end for end in ENDINGS if word.endswith(end) and len(word) >= len(end) + 3)
        return next(endings, OTHER)

    def information(self, first: str, second: str) -> float:
        """Return the information of a pair of classes, in nats."""
        share = (self.second[second] + 1) / self.size
        count = self.pairs[first, second] + PRIOR * share
        return math.log(count / (self.first[first] + PRIOR) / share)

    def mean(self, sequence: Sequence[str], source: Collection[tuple[str, str]]) -> float:
        """Return the mean information of the pairs that the source does not have, in nats.

        Args:
            sequence: The tokens of a text.
            source: Pairs of neighbors of the source, in lower case.
        """
        lower = [STOP, *(token.lower() for token in sequence)]
        own = [
            self.information(*classes)
            for classes, pair in zip(pairwise(self.classes(sequence)), pairwise(lower), strict=True)
            if pair not in source
        ]
        return math.fsum(own) / (len(own) + FEW)


@lru_cache(maxsize=1)
def english() -> WordOrder:
    """Return the shares of all bundled posts and abstracts."""
    posts = (str(row["prompt"]) for row in POSTS.bundled())
    abstracts = (str(row["abstract_text"]) for row in ABSTRACTS.bundled())
    return WordOrder([*posts, *abstracts])
