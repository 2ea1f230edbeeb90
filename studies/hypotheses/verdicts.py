"""Verdicts: hypotheses that the measures of all seeds confirm, refute, or leave undecided.

The test of a clause flips the signs of the differences between the numbers of the seeds and the bound at random
(Fisher 1935; exact for differences that are symmetric about the true one). p against the clause is the share of
flips with a mean at least as far on the predicted side as the mean of the data. p for the clause is the share at
least as far on the other side. One is added to both counts. n seeds give no p below 2^-n.

All clauses of a hypothesis have to hold, so its p is the largest p against a clause (an intersection-union test;
Berger 1982, Technometrics 24, 295). One clause can refute it, so the p of the refutation is the smallest p for a
clause, times the number of clauses. Each family of p is corrected over all hypotheses of the suite, with those
that were not measured (Holm 1979, Scandinavian Journal of Statistics 6, 65), and counts up to `LEVEL`.

The flip test is a test of the mean only for symmetric differences. Share of simulated cases with p <= 0.05 and a
mean at the bound (3,000 draws, 1,000 flips; nominal 0.05), for both sides of the bound:

| distribution of a seed's number | 5 seeds | 20 seeds |
|---|---|---|
| normal | 0.033, 0.036 | 0.056, 0.046 |
| exponential | 0.005, 0.110 | 0.018, 0.103 |
| 0.9 in four of five seeds, else 0.2 | 0.327, 0.001 | 0.073, 0.014 |
| 1 in one of ten seeds, else 0 | 0.000, 0.600 | 0.012, 0.125 |

So p of a skewed number is up to 2.5 times too small with 20 seeds, and useless with 5. After Holm's correction by
eighteen, the smallest p must be below 0.0028.

The intervals are of the bootstrap (Efron 1979) and too narrow with few seeds, unlike those of
`evaluation/statistics.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from llm_decpomdp.seeding import stream
from studies.hypotheses.hypothesis import Clause, Hypothesis, Measures

LEVEL = 0.05
"""Largest corrected p of a verdict."""

REPLICATES = 20_000

Word = Literal["confirmed", "refuted", "undecided"]


@dataclass(frozen=True)
class ClauseResult:
    """Measurement of a clause."""

    clause: Clause
    mean: float
    low: float
    """Lower end of the 95 % percentile interval."""
    high: float
    against: float
    """p against the clause."""
    support: float
    """p for the clause."""
    seeds: int


@dataclass(frozen=True)
class Verdict:
    """Verdict on a hypothesis."""

    hypothesis: Hypothesis
    findings: tuple[ClauseResult, ...]
    word: Word
    p: float
    """Corrected p of the verdict, or the smaller one if it is undecided."""


def find(clause: Clause, rows: Sequence[Measures]) -> ClauseResult:
    """Estimate the number of a clause from the measures of each seed.

    Raises:
        ValueError: If there are fewer than two seeds, or a number is not finite.
    """
    values = np.array([clause.evaluate(row) for row in rows])
    if len(values) < 2 or not np.isfinite(values).all():
        raise ValueError(
            f"a clause needs finite numbers of two seeds or more, got {values}: {clause.words}"
        )
    rng = stream(0, "science", clause.words)
    means = values[rng.integers(len(values), size=(REPLICATES, len(values)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    distances = values - clause.bound if clause.below is None else clause.bound - values
    flips = rng.choice([-1.0, 1.0], size=(REPLICATES, len(values))) @ distances
    margin = 1e-9 * np.abs(distances).sum()  # sums of the same numbers differ in their last digits
    return ClauseResult(
        clause,
        float(values.mean()),
        float(low),
        float(high),
        against=_share(flips >= distances.sum() - margin),
        support=_share(flips <= distances.sum() + margin),
        seeds=len(values),
    )


def _share(hits: NDArray[np.bool_]) -> float:
    return (int(hits.sum()) + 1) / (len(hits) + 1)


def judge(
    hypotheses: Sequence[Hypothesis],
    measures: Mapping[str, Sequence[Measures]],
    family: int | None = None,
) -> list[Verdict]:
    """Judge all hypotheses of a suite together.

    Args:
        hypotheses: Declared hypotheses.
        measures: Measures of each seed, by the id of the hypothesis.
        family: Number of hypotheses of the suite, if not all of them are judged.

    Raises:
        KeyError: If a hypothesis was not measured.
    """
    findings = [
        tuple(find(clause, measures[hypothesis.id]) for clause in hypothesis.clauses)
        for hypothesis in hypotheses
    ]
    number = max(family or 0, len(findings))
    against = holm([max(f.against for f in group) for group in findings], number)
    support = holm(
        [min(1.0, len(group) * min(f.support for f in group)) for group in findings], number
    )
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


def holm(values: Sequence[float], number: int) -> list[float]:
    """Correct p-values for m tests. Tests without a value count as 1.

    The smallest value is multiplied by m, the next by m - 1, and so on. Results are at most 1 and do not decrease.
    """
    results, largest = [0.0] * len(values), 0.0
    for rank, place in enumerate(np.argsort(values, kind="stable")):
        largest = max(largest, min(1.0, (number - rank) * values[place]))
        results[place] = largest
    return results
