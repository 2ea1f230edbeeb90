"""The hypotheses: their folder, its command and its page."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.config.errors import ConfigError
from studies.hypotheses import suite
from studies.hypotheses.__main__ import main
from studies.hypotheses.suite import HYPOTHESES, declare
from studies.hypotheses.verdicts import ClauseResult, find


def test_every_hypothesis_has_an_id_of_its_own_and_several_seeds() -> None:
    assert len({hypothesis.id for hypothesis in HYPOTHESES}) == len(HYPOTHESES) >= 12
    assert all(hypothesis.seeds >= 5 for hypothesis in HYPOTHESES)


CHEAP = [h for h in HYPOTHESES if h.id in ("H9", "H10", "H11")]


@pytest.mark.parametrize(
    "hypothesis",
    [pytest.param(h, id=h.id, marks=() if h in CHEAP else pytest.mark.slow) for h in HYPOTHESES],
)
def test_measures_have_all_clauses_and_depend_on_the_seed(hypothesis: suite.Hypothesis) -> None:
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
    assert f"13 of the {len(HYPOTHESES)} declared hypotheses" in page
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
