"""First reward of writing: four levels about the form of two texts, each a condition for the next.

| level | component     | points | TLDR                                    | arXiv                          |
|-------|---------------|--------|-----------------------------------------|--------------------------------|
| 1     | `structure`   | 0.5    | both texts have 8 to 256 tokens         | 128 to 256                     |
| 2     | `length`      | 1.0    | second / first, characters: 1.6 to 3.2  | 1.3 to 1.6                     |
| 3     | `vocabulary`  | 0.5    | second / first, different words: from 2 | 0.7 to 1.3                     |
| 4     | `transitions` | 0.4    | kinds of transitions in the second text | in both, joined without a gap  |
|       | `overlap`     | 0.6    | Jaccard index of content words: 0.03    | 0.23                           |

Outside of its best values a level's credit falls linearly to the ends of an interval. Outside of the interval, or
with a wrong number of tokens, later levels have no points. n kinds of transitions have 0.4 (0.4 + 0.05 (n - 1))
points, none has 0. There are 12 kinds, so the true maximum is 2.98, not 3.0.

The source is ignored: random words have nearly the reward of a good text. `grounded_reward` compares with the
source.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from llm_decpomdp.envs.writing.audit import about_writing
from llm_decpomdp.envs.writing.roles import WritingTeam
from llm_decpomdp.envs.writing.tasks import WritingTask
from llm_decpomdp.envs.writing.text_measures import Interval, TextPair, count_tokens, transitions
from llm_decpomdp.interfaces import Component, Verdict

COMPONENTS = {
    "structure": Component(
        "0.5 if both texts have a number of tokens in the wanted range.", form=True
    ),
    "length": Component(
        "Up to 1.0: the second text is longer than the first, as far as wanted.", form=True
    ),
    "vocabulary": Component(
        "Up to 0.5: the second text has as many different words, against the first, as wanted.",
        form=True,
    ),
    "transitions": Component(
        "Up to 0.4: kinds of transitions, such as contrast and example.", form=True
    ),
    "overlap": Component("Up to 0.6: content words that both texts share.", form=True),
}
"""Components, none of which depends on the source."""
STRUCTURE, LENGTH, VOCABULARY, TRANSITION, OVERLAP = 0.5, 1.0, 0.5, 0.4, 0.6

FIRST_KIND, OTHER_KIND, ALL_KINDS = 0.4, 0.05, 12

MAX_TRANSITION = TRANSITION * (FIRST_KIND + OTHER_KIND * (ALL_KINDS - 1))
MAX_REWARD = STRUCTURE + LENGTH + VOCABULARY + MAX_TRANSITION + OVERLAP
"""Reward of 2.98 for a pair of texts with all kinds of transitions."""


@dataclass(frozen=True)
class LevelIntervals:
    """Intervals of a genre's levels."""

    tokens: tuple[int, int]
    """Minimum and maximum number of tokens of each text."""
    length: Interval
    vocabulary: Interval
    overlap: float
    """Minimum Jaccard index with full points."""
    joins: bool
    """True if transitions of both texts count, false if only those of the second."""


TLDR_KNOTS = LevelIntervals(
    (8, 256),
    Interval(1.1, 1.6, 3.2, 5.0),
    Interval(1.3, 2.0, math.inf, math.inf),
    0.03,
    joins=False,
)
ARXIV_KNOTS = LevelIntervals(
    (128, 256), Interval(0.8, 1.3, 1.6, 2.0), Interval(0.5, 0.7, 1.3, 1.7), 0.23, joins=True
)


@dataclass(frozen=True)
class LevelReward:
    """Scores the form of a pair of texts."""

    team: WritingTeam
    knots: LevelIntervals
    matching: str = "substring"
    components: ClassVar[Mapping[str, Component]] = COMPONENTS
    maximum: ClassVar[float] = MAX_REWARD
    audit = staticmethod(about_writing)

    def __call__(self, task: WritingTask, completions: Mapping[str, str]) -> Verdict:
        """Score one joint completion."""
        points = self.points(self.team.read(completions))
        verdict = Verdict(points, False)
        return Verdict(points, verdict.reward >= MAX_REWARD - 1e-9)

    def points(self, pair: TextPair) -> dict[str, float]:
        """Return the points of every component; see the table above."""
        points = dict.fromkeys(COMPONENTS, 0.0)
        fewest, most = self.knots.tokens
        if not all(fewest <= count_tokens(text) <= most for text in pair.texts):
            return points
        points["structure"] = STRUCTURE
        # Each level is a condition for the next ones, as in the paper's reward.
        if pair.length_ratio not in self.knots.length:
            return points
        points["length"] = LENGTH * self.knots.length.credit(pair.length_ratio)
        if pair.vocabulary_ratio not in self.knots.vocabulary:
            return points
        points["vocabulary"] = VOCABULARY * self.knots.vocabulary.credit(pair.vocabulary_ratio)
        # Joined without a gap, as in CoMLRL: a transition may begin in one text and end in the other.
        text = pair.first + pair.second if self.knots.joins else pair.second
        kinds = len(transitions(text, self.matching))
        share = FIRST_KIND + OTHER_KIND * (kinds - 1) if kinds else 0.0
        points["transitions"] = TRANSITION * share
        points["overlap"] = OVERLAP * min(pair.overlap, self.knots.overlap) / self.knots.overlap
        return points
