"""Hypotheses and their verdicts."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from llm_decpomdp.benchmarks.config.errors import ConfigError
from studies.hypotheses import suite
from studies.hypotheses.__main__ import main
from studies.hypotheses.hypothesis import Clause, Hypothesis, fingerprint
from studies.hypotheses.suite import HYPOTHESES, declare
from studies.hypotheses.verdicts import ClauseResult, find, holm, judge


def test_every_hypothesis_has_an_id_of_its_own_and_several_seeds() -> None:
    assert len({hypothesis.id for hypothesis in HYPOTHESES}) == len(HYPOTHESES) >= 12
    assert all(hypothesis.seeds >= 5 for hypothesis in HYPOTHESES)


CHEAP = [h for h in HYPOTHESES if h.id in ("H9", "H10", "H11")]


@pytest.mark.parametrize(
    "hypothesis",
    [pytest.param(h, id=h.id, marks=() if h in CHEAP else pytest.mark.slow) for h in HYPOTHESES],
)
def test_measures_have_all_clauses_and_depend_on_the_seed(hypothesis: Hypothesis) -> None:
    measures = hypothesis.measure(1000)
    assert all(math.isfinite(clause.evaluate(measures)) for clause in hypothesis.clauses)
    assert hypothesis.measure(1000) == measures


def test_declarations_cannot_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(tmp_path)
    stored = json.loads((tmp_path / "declaration.json").read_text())
    assert [entry["id"] for entry in stored["hypotheses"]] == [h.id for h in HYPOTHESES]
    changed = (replace(HYPOTHESES[0], seeds=3), *HYPOTHESES[1:])
    monkeypatch.setattr(suite, "HYPOTHESES", changed)
    with pytest.raises(ConfigError, match="other declarations"):
        declare(tmp_path)


def test_the_command_measures_what_is_missing_and_tells_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "commit", lambda _: {"commit": "0123abcd", "dirty": True})
    command = ["--only", "H9", "--cores", "1", "--output", str(tmp_path)]
    main(command)
    first = capsys.readouterr()
    assert "40/40: H9" in first.err and "confirmed" in first.out
    page = (tmp_path / "report.html").read_text()
    assert "H9: confirmed" in page and "H8:" not in page
    assert f"{len(HYPOTHESES) - 1} of the {len(HYPOTHESES)} declared hypotheses" in page
    assert "git checkout 0123abcd\npython -m studies.hypotheses --only H9" in page
    assert "The checkout had uncommitted changes" in page
    assert page.count("<svg") == 2 and "k1: above 0.99" in page.partition("<svg")[2]
    assert "| H9 |" in (tmp_path / "science.md").read_text()
    (verdict,) = json.loads((tmp_path / "verdicts.json").read_text())
    assert verdict["verdict"] == "confirmed" and len(verdict["clauses"]) == 2
    raw = max(clause.against for clause in find_all("H9", tmp_path))
    assert verdict["p"] == pytest.approx(min(1.0, raw * len(HYPOTHESES)))
    (tmp_path / "H9-seed-3007.json").unlink()
    main(command)
    assert "1/1: H9, seed 3007" in capsys.readouterr().err
    assert json.loads((tmp_path / "verdicts.json").read_text()) == [verdict]


def find_all(name: str, folder: Path) -> list[ClauseResult]:
    """Judge a hypothesis's clauses each by itself."""
    (hypothesis,) = (h for h in HYPOTHESES if h.id == name)
    paths = [folder / f"{name}-seed-{seed}.json" for seed in hypothesis.seed_numbers]
    measures = [json.loads(path.read_text())["measures"] for path in paths]
    return [find(clause, measures) for clause in hypothesis.clauses]


@pytest.mark.parametrize("changed", ["training.py", "verdicts.py", "rule"])
def test_changed_declaration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    before = declare(tmp_path / "before")
    if changed == "rule":
        monkeypatch.setattr(suite, "RULE", "whatever we like")
    else:
        files = suite._code()
        copies = [tmp_path / path.name for path in files]
        for path, copy in zip(files, copies, strict=True):
            copy.write_text(path.read_text() + "#" * (path.name == changed))
        monkeypatch.setattr(suite, "_code", lambda: copies)
    assert declare(tmp_path / "after") != before


def test_an_unknown_hypothesis_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="H99"):
        list(suite.run_science(tmp_path, ["H99"]))


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
