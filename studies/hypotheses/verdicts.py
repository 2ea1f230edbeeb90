"""Verdicts: which hypotheses the measures of all seeds confirm, refute, or leave undecided.

For each clause, the differences of the seeds' numbers from its bound are flipped in sign at random (Fisher 1935;
exact where they are symmetric about the true one): p against the clause is the share of flips whose mean lies as
far on the predicted side as that of the data, or farther, and p for it that on the other side, with one added to
either count. So n seeds give no p below 2^-n.

A hypothesis has the largest p against any of its clauses, since all have to hold (an intersection-union test;
Berger 1982, Technometrics 24, 295), and is refuted by any one of them: p is then the smallest p for a clause,
times their number. Each of both families of p is corrected over all hypotheses of the suite, also those that were
not measured (Holm 1979, Scandinavian Journal of Statistics 6, 65), and counts up to `LEVEL`.

The flip test is a test of the mean only where the differences are symmetric. Share of simulated cases with
p <= 0.05 whose mean is at the bound (3,000 draws, 1,000 flips; nominal 0.05), for either side of the bound:

| distribution of a seed's number | 5 seeds | 20 seeds |
|---|---|---|
| normal | 0.033, 0.036 | 0.056, 0.046 |
| exponential | 0.005, 0.110 | 0.018, 0.103 |
| 0.9 in four of five seeds, else 0.2 | 0.327, 0.001 | 0.073, 0.014 |
| 1 in one of ten seeds, else 0 | 0.000, 0.600 | 0.012, 0.125 |

So p of a skewed number is up to 2.5 times too small with 20 seeds, and means nothing with 5. Holm's correction by
fourteen leaves 0.0036 for the smallest p.

The intervals are of the bootstrap (Efron 1979), and too narrow where seeds are few; those of
`evaluation/statistics.py` are not.
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
    """What was measured for a clause."""

    clause: Clause
    mean: float
    low: float
    """Of the percentile interval of 95 %, as `high`."""
    high: float
    against: float
    """p of the data if the number were at the bound, for the predicted side."""
    support: float
    """The same for the other side."""
    seeds: int


@dataclass(frozen=True)
class Verdict:
    """What is to be said of a hypothesis."""

    hypothesis: Hypothesis
    findings: tuple[ClauseResult, ...]
    word: Word
    p: float
    """Corrected p of the verdict; of the nearer one, where there is none."""


def find(clause: Clause, rows: Sequence[Measures]) -> ClauseResult:
    """Estimate a clause's number from the measures of each seed.

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
        hypotheses: Those that were declared.
        measures: Those of each seed, by the hypothesis's id.
        family: Number of hypotheses of the suite, if not all of them are judged.

    Raises:
        KeyError: If one was not measured.
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
    """Correct p-values for a number of tests, m, of which these are some; the others count as 1.

    The smallest is multiplied by m, the next by m - 1, and so on; none is below one before it, or above 1.
    """
    results, largest = [0.0] * len(values), 0.0
    for rank, place in enumerate(np.argsort(values, kind="stable")):
        largest = max(largest, min(1.0, (number - rank) * values[place]))
        results[place] = largest
    return results
