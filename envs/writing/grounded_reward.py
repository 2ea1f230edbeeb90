"""Second reward of writing: the levels of the first one, and the texts must be about their source.

| level | component     | points  | credit c, from 0 to 1                                                         |
|-------|---------------|---------|-------------------------------------------------------------------------------|
| 1     | `structure`   | 0.5     | tokens of the worse text; half if it does not end with a sentence             |
| 2     | `grounding`   | 1.0     | mean of both texts' grounding, below                                          |
| 3     | `length`      | 1.0     | second / first text, in characters without padding: `visible_length`          |
| 4     | `vocabulary`  | 0.5     | second / first text, in different words                                       |
| 5     | `transitions` | 0.4     | 0.4 for one kind, 0.2 for each other one, up to 1, in whole words             |
|       | `overlap`     | 0.6     | Jaccard index of both texts' content words: some, and not the same text twice |
|       | `repetition`  | 0 to -4 | minus a share r of all other points                                           |

The maximum is 4.0. The reward is continuous: a level's points are multiplied by min(1, 2 c) of each level before
it; for level 2, c is the grounding of the worse text. r rises from 0, if 10 % of a text's runs of three words
occurred before in the text, to 1 at 50 %; the worse text counts.

The grounding of a text is

    mean(words, coverage, entities) x min(phrases, order, cohesion, extracted) x numbers x original

with the measures of `llm_decpomdp.envs.writing.source_overlap`. The first seven are credits on the intervals of
`GroundingIntervals`. `numbers` is 1 minus 0.25 for each number that the source does not have. `original` falls
from 1, if 50 % of a text are copied, to 0 at 80 %. The minimum detects random combinations of words: such words
have no phrases of the source, are not in English word order, come from different sentences of the source, or all
have a neighbor from the source. `original` detects copies.

The intervals of the minimum were set on every second row of the bundled data: full credit for about 95 % of the
references, and no credit for about half of the texts made of random runs of words of the source. Then they were
relaxed by 0.1 for `order` and 0.05 for `cohesion`, because other authors write differently. For summaries the
interval of `extracted` was widened: a good sentence may have few words that are not in the source.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from llm_decpomdp.envs.writing.audit import about_writing
from llm_decpomdp.envs.writing.reward import COMPONENTS as FORM
from llm_decpomdp.envs.writing.roles import WritingTeam
from llm_decpomdp.envs.writing.source_overlap import Grounding, source
from llm_decpomdp.envs.writing.tasks import WritingTask
from llm_decpomdp.envs.writing.text_measures import (
    Interval,
    TextPair,
    count_tokens,
    ends_with_sentence,
    transitions,
)
from llm_decpomdp.interfaces import Component, Verdict

LEVELS = {
    "structure": 0.5,
    "grounding": 1.0,
    "length": 1.0,
    "vocabulary": 0.5,
    "transitions": 0.4,
    "overlap": 0.6,
}
"""Points of the components, in order of their levels; the last two are on one level."""

COMPONENTS = {
    "structure": Component(
        "Up to 0.5: both texts have a number of tokens in the wanted range and end with a sentence.",
        form=True,
    ),
    "grounding": Component(
        "Up to 1.0: both texts are about their source, in words of their own and without invented numbers."
    ),
    **{level: FORM[level] for level in ("length", "vocabulary", "transitions")},
    "overlap": Component("Up to 0.6: content words that both texts share, and not all.", form=True),
    "repetition": Component(
        "Takes off up to all that was earned where a text repeats itself.", form=True
    ),
}

MAX_REWARD = 4.0

FIRST_KIND, OTHER_KIND = 0.4, 0.2

NUMBER_COST = 0.25
"""Deduction from the grounding for a number that is not in the source."""

UNFINISHED = 0.5
"""Factor on the credit for structure where a text does not end with a sentence."""

REPEATED = Interval(0.1, 0.5, math.inf, math.inf)


@dataclass(frozen=True)
class GroundingIntervals:
    """Credit for the measures of one of the two texts."""

    words: Interval
    coverage: Interval
    entities: Interval
    phrases: Interval
    order: Interval
    cohesion: Interval
    extracted: Interval

    def credit(self, grounding: Grounding) -> float:
        """Return the grounding of a text, in [0, 1]; see the formula above."""
        about = self._credits(grounding, "words", "coverage", "entities")
        about_source = sum(about) / len(about)
        numbers = max(0.0, 1.0 - NUMBER_COST * len(grounding.unfounded))
        return about_source * self.fluency(grounding) * numbers * COPIED.credit(grounding.copied)

    def fluency(self, grounding: Grounding) -> float:
        """Return the minimum credit of the measures that detect random combinations of words."""
        return min(self._credits(grounding, "phrases", "order", "cohesion", "extracted"))

    def _credits(self, grounding: Grounding, *names: str) -> list[float]:
        return [getattr(self, name).credit(getattr(grounding, name)) for name in names]


@dataclass(frozen=True)
class Scale:
    """Intervals of a genre's levels."""

    tokens: Interval
    length: Interval
    vocabulary: Interval
    overlap: Interval
    depths: tuple[GroundingIntervals, GroundingIntervals]
    joins: bool
    """True if transitions of both texts count, false if only those of the second."""


def interval_below(most: float, high: float) -> Interval:
    """Return an interval without a lower end."""
    return Interval(-math.inf, -math.inf, most, high)


def interval_above(low: float, full: float) -> Interval:
    """Return an interval without an upper end."""
    return Interval(low, full, math.inf, math.inf)


COPIED = interval_below(0.5, 0.8)

TLDR_SCALE = Scale(
    tokens=Interval(0, 8, 256, 384),
    length=Interval(1.1, 1.6, 3.2, 5.0),
    vocabulary=interval_above(1.3, 2.0),
    overlap=Interval(0.0, 0.03, 0.5, 1.0),
    depths=(
        GroundingIntervals(
            words=interval_above(0.2, 0.6),
            coverage=interval_above(0.02, 0.1),
            entities=interval_above(-0.1, 0.1),
            phrases=interval_above(0.0, 0.15),
            order=interval_above(-0.8, -0.4),
            cohesion=interval_above(0.0, 0.3),
            extracted=interval_below(0.7, 1.2),
        ),
        GroundingIntervals(
            words=interval_above(0.2, 0.6),
            coverage=interval_above(0.08, 0.28),
            entities=interval_above(0.0, 0.25),
            phrases=interval_above(0.05, 0.2),
            order=interval_above(-0.7, -0.3),
            cohesion=interval_above(0.3, 0.55),
            extracted=interval_below(0.65, 0.9),
        ),
    ),
    joins=False,
)

ARXIV_SCALE = Scale(
    tokens=Interval(0, 128, 256, 384),
    length=Interval(0.8, 1.3, 1.6, 2.0),
    vocabulary=Interval(0.5, 0.7, 1.3, 1.7),
    overlap=Interval(0.0, 0.06, 0.5, 1.0),
    depths=(
        GroundingIntervals(
            words=interval_above(0.1, 0.25),
            coverage=interval_above(0.1, 0.3),
            entities=interval_above(-1.0, 0.0),
            phrases=interval_above(0.0, 0.02),
            order=interval_above(-0.6, -0.05),
            cohesion=interval_above(0.2, 0.4),
            extracted=interval_below(0.2, 0.6),
        ),
        GroundingIntervals(
            words=interval_above(0.15, 0.5),
            coverage=interval_above(0.2, 0.7),
            entities=interval_above(0.0, 0.8),
            phrases=interval_above(0.05, 0.3),
            order=interval_above(-0.6, -0.05),
            cohesion=interval_above(0.45, 0.7),
            extracted=interval_below(0.6, 0.9),
        ),
    ),
    joins=True,
)
"""A background paragraph is about the time before the work, so it needs few names and numbers of the abstract."""


@dataclass(frozen=True)
class Assessment:
    """All measures of a pair of texts and its source."""

    source: str
    pair: TextPair
    scale: Scale

    @cached_property
    def groundings(self) -> tuple[Grounding, Grounding]:
        """Measures of each text."""
        first, second = (source(self.source).ground(text) for text in self.pair.texts)
        return first, second

    @cached_property
    def grounding(self) -> tuple[float, float]:
        """Grounding of each text, in [0, 1]."""
        first, second = zip(self.scale.depths, self.groundings, strict=True)
        return first[0].credit(first[1]), second[0].credit(second[1])

    @cached_property
    def tokens(self) -> tuple[float, float]:
        """Credit of each text's length."""
        first, second = (self.scale.tokens.credit(count_tokens(text)) for text in self.pair.texts)
        return first, second

    @cached_property
    def ends_in_sentences(self) -> tuple[bool, bool]:
        """True for each text that ends with a sentence."""
        first, second = map(ends_with_sentence, self.pair.texts)
        return first, second

    @cached_property
    def kinds(self) -> list[str]:
        """Kinds of transitions that count."""
        first, second = self.pair.texts
        return transitions(f"{first}\n{second}" if self.scale.joins else second, "word")

    @cached_property
    def repetition(self) -> float:
        """Share of all points that is deducted for repetition."""
        return max(REPEATED.credit(grounding.repeated) for grounding in self.groundings)

    @cached_property
    def credits(self) -> dict[str, float]:
        """Credit of each component, in [0, 1], regardless of earlier levels."""
        pair, scale = self.pair, self.scale
        kinds = len(self.kinds)
        return {
            "structure": min(
                tokens * (1.0 if whole else UNFINISHED)
                for tokens, whole in zip(self.tokens, self.ends_in_sentences, strict=True)
            ),
            "grounding": sum(self.grounding) / 2,
            "length": scale.length.credit(pair.visible_ratio),
            "vocabulary": scale.vocabulary.credit(pair.vocabulary_ratio),
            "transitions": min(1.0, FIRST_KIND + OTHER_KIND * (kinds - 1)) if kinds else 0.0,
            "overlap": scale.overlap.credit(pair.overlap),
        }

    @cached_property
    def points(self) -> dict[str, float]:
        """Points of every component; see the table above."""
        points, opening = {}, 1.0
        for level, credit in self.credits.items():
            points[level] = LEVELS[level] * credit * opening
            if level == "grounding":
                credit = min(self.grounding)  # the worse text, not the mean
            if level not in ("transitions", "overlap"):
                opening *= min(1.0, 2.0 * credit)
        # `0.0 -`, so that no repetition is 0.0 and not -0.0 in logs.
        points["repetition"] = 0.0 - self.repetition * math.fsum(points.values())
        return points


@dataclass(frozen=True)
class GroundedReward:
    """Scores the form of a pair of texts, and its content by the source."""

    team: WritingTeam
    scale: Scale
    components: ClassVar[Mapping[str, Component]] = COMPONENTS
    maximum: ClassVar[float] = MAX_REWARD
    audit = staticmethod(about_writing)

    def __call__(self, task: WritingTask, completions: Mapping[str, str]) -> Verdict:
        """Score one joint completion."""
        analysis = Assessment(task.prompt, self.team.read(completions), self.scale)
        verdict = Verdict(analysis.points, False, analysis=analysis)
        # The sum of six products may be a little below the maximum.
        return replace(verdict, solved=verdict.reward >= MAX_REWARD - 1e-9)
