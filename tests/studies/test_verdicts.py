"""Verdicts, on measures that are made up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from studies.hypotheses.hypothesis import Clause, Hypothesis, fingerprint
from studies.hypotheses.verdicts import find, holm, judge


def hypothesis(name: str, *clauses: Clause) -> Hypothesis:
    return Hypothesis(name, "statement", "theory", "setting", clauses, lambda seed: {"x": seed})


def rows(values: Sequence[float]) -> list[dict[str, float]]:
    return [{"x": value} for value in values]


ABOVE = Clause("x is above 1", {"x": 1}, above=1)
BELOW = Clause("x is below 1", {"x": 1}, below=1)
NOISE = np.random.default_rng(0).normal(size=20)


@pytest.mark.parametrize(
    ("clauses", "values", "word"),
    [
        ((ABOVE,), 3 + NOISE, "confirmed"),
        ((BELOW,), 3 + NOISE, "refuted"),
        ((ABOVE,), 1 + NOISE - NOISE.mean(), "undecided"),
        ((ABOVE, BELOW), 3 + NOISE, "refuted"),
        ((ABOVE,), np.full(20, 1.1), "confirmed"),
        ((ABOVE,), np.full(20, 1.0), "undecided"),  # at the bound
        ((ABOVE,), np.full(4, 3.0), "undecided"),  # four seeds show nothing at 5 %
    ],
)
def test_verdicts(clauses: tuple[Clause, ...], values: Sequence[float], word: str) -> None:
    (verdict,) = judge([hypothesis("H1", *clauses)], {"H1": rows(values)})
    assert verdict.word == word


def test_what_one_hypothesis_shows_is_not_shown_among_many() -> None:
    values = rows(1.0 + 0.46 + NOISE - NOISE.mean())
    assert judge([hypothesis("H", ABOVE)], {"H": values})[0].word == "confirmed"
    several = [hypothesis(f"H{n}", ABOVE) for n in range(20)]
    nothing = rows(1.0 + NOISE - NOISE.mean())
    verdicts = judge(several, {h.id: nothing for h in several} | {"H0": values})
    assert {verdict.word for verdict in verdicts} == {"undecided"}


def test_a_suite_that_is_measured_in_part_is_corrected_as_a_whole() -> None:
    values = {"H": rows(1.0 + 0.46 + NOISE - NOISE.mean())}
    assert judge([hypothesis("H", ABOVE)], values, family=20)[0].word == "undecided"


def test_chance_alone_confirms_no_more_often_than_it_may() -> None:
    rng = np.random.default_rng(1)
    at_the_bound = [find(ABOVE, rows(1 + rng.normal(size=8))).against <= 0.05 for _ in range(200)]
    assert sum(at_the_bound) <= 20  # 10 expected


def test_holms_correction_is_that_of_his_paper() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005], 4) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.01, 0.5], 10) == pytest.approx([0.1, 1.0])
    assert holm([0.9, 0.8], 2) == [1.0, 1.0]


def test_a_finding_has_the_mean_of_the_weighted_sum() -> None:
    clause = Clause("difference", {"a": 1, "b": -2}, above=0)
    finding = find(clause, [{"a": 5.0, "b": 1.0}, {"a": 7.0, "b": 1.0}])
    assert (finding.mean, finding.low, finding.high, finding.seeds) == (4.0, 3.0, 5.0, 2)


@pytest.mark.parametrize("values", [[1.0], [1.0, float("nan")]])
def test_one_seed_and_numbers_that_are_none_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="two seeds"):
        find(ABOVE, rows(values))


def test_a_clause_has_one_bound() -> None:
    for bounds in ({}, {"above": 1.0, "below": 2.0}):
        with pytest.raises(ValueError, match="one of above and below"):
            Clause("x", {"x": 1}, **bounds)


def test_whoever_moves_a_bound_changes_the_fingerprint() -> None:
    moved = Clause("x is above 1", {"x": 1}, above=0.9)
    marks = {fingerprint([hypothesis("H", clause).declaration()]) for clause in (ABOVE, moved)}
    assert len(marks) == 2
