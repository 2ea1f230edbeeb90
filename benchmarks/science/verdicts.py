"""Verdicts: which hypotheses the measures of all seeds confirm, refute, or leave undecided.

For each clause the mean over seeds has a bootstrap distribution (Efron 1979). p against a clause is the share of
replicates on the wrong side of its bound, p for it that on the right side, both with one added to either count
(Davison and Hinkley 1997, section 4.2). A hypothesis has the largest p against any of its clauses, since all have
to hold (an intersection-union test; Berger 1982, Technometrics 24, 295), and is refuted by any one of them: p is
then the smallest p for a clause, times their number. Both families of p are corrected over the suite by Holm
(1979, Scandinavian Journal of Statistics 6, 65), and count from `LEVEL` on.

Intervals of few seeds are too narrow (see `evaluation/statistics.py`): with 20 an interval of 95 % holds the true
mean in about 93 % of all cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from llm_decpomdp.benchmarks.science.hypothesis import Clause, Hypothesis, Measures
from llm_decpomdp.seeding import stream

LEVEL = 0.05
"""Largest corrected p of a verdict."""

REPLICATES = 20_000

Word = Literal["confirmed", "refuted", "undecided"]


@dataclass(frozen=True)
class Finding:
    """What was measured for a clause."""

    clause: Clause
    mean: float
    low: float
    """Of the percentile interval of 95 %, as `high`."""
    high: float
    against: float
    """p of the data if the clause did not hold."""
    support: float
    """p of the data if it did hold."""
    seeds: int


@dataclass(frozen=True)
class Verdict:
    """What is to be said of a hypothesis."""

    hypothesis: Hypothesis
    findings: tuple[Finding, ...]
    word: Word
    p: float
    """Corrected p of the verdict; of the nearer one, where there is none."""


def find(clause: Clause, rows: Sequence[Measures]) -> Finding:
    """Estimate a clause's number from the measures of each seed.

    Raises:
        ValueError: If there are fewer than two seeds, or a number is not finite.
    """
    values = np.array([clause.of(row) for row in rows])
    if len(values) < 2 or not np.isfinite(values).all():
        raise ValueError(
            f"a clause needs finite numbers of two seeds or more, got {values}: {clause.words}"
        )
    picks = stream(0, "science", clause.words).integers(len(values), size=(REPLICATES, len(values)))
    means = values[picks].mean(1)
    right = means < clause.bound if clause.above is None else means > clause.bound
    count = int(right.sum())
    low, high = np.quantile(means, [0.025, 0.975])
    return Finding(
        clause,
        float(values.mean()),
        float(low),
        float(high),
        against=(REPLICATES - count + 1) / (REPLICATES + 1),
        support=(count + 1) / (REPLICATES + 1),
        seeds=len(values),
    )


def judge(
    hypotheses: Sequence[Hypothesis], measures: Mapping[str, Sequence[Measures]]
) -> list[Verdict]:
    """Judge all hypotheses of a suite together.

    Args:
        hypotheses: Those that were declared.
        measures: Those of each seed, by the hypothesis's id.

    Raises:
        KeyError: If one was not measured.
    """
    findings = [
        tuple(find(clause, measures[hypothesis.id]) for clause in hypothesis.clauses)
        for hypothesis in hypotheses
    ]
    against = holm([max(f.against for f in group) for group in findings])
    support = holm([min(1.0, len(group) * min(f.support for f in group)) for group in findings])
    return [
        Verdict(hypothesis, group, _word(wrong, right), min(wrong, right))
        for hypothesis, group, wrong, right in zip(
            hypotheses, findings, against, support, strict=True
        )
    ]


def _word(against: float, support: float) -> Word:
    if against <= LEVEL:
        return "confirmed"
    return "refuted" if support <= LEVEL else "undecided"


def holm(values: Sequence[float]) -> list[float]:
    """Correct p-values for their number.

    The smallest of m is multiplied by m, the next by m - 1, and so on; none is below one before it, or above 1.
    """
    results, largest = [0.0] * len(values), 0.0
    for rank, place in enumerate(np.argsort(values, kind="stable")):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        results[place] = largest
    return results
