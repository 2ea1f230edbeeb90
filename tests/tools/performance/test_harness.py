"""Trials take turns in processes of their own, and their report has them all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tools.performance.harness import trials
from tools.performance.harness.processes import cpu_seconds, descendants
from tools.performance.harness.trials import (
    BenchmarkError,
    Goal,
    Judgement,
    Measured,
    Measurement,
    Report,
    Spread,
    Variant,
    goal_table,
    speed,
    table,
)

SCRIPT = """
import os, subprocess, sys

def work(units, fail=False, wrong=(), parts=None):
    print("chatter")
    yield {"units": 1}
    assert not fail, "this went wrong"
    ballast = bytearray(50_000_000)
    subprocess.run([sys.executable, "-S", "-c", "while __import__('time').process_time() < 0.2: pass"])
    setting = float(os.environ["MALLOC_TOP_PAD_"]) if "MALLOC_TOP_PAD_" in os.environ else 0.0
    answer = {"units": units, "wrong": wrong, "figures": {"setting": setting}}
    yield {**answer, "parts": parts} if parts else answer
    raise SystemExit("never reached: the generator is closed")
"""


@pytest.fixture
def script(tmp_path: Path) -> Variant:
    """A variant without a model."""
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    return Variant("script", str(file), "work", {"units": 8})


def measured(name: str, *outcomes: Measurement) -> Measured:
    return Measured(Variant(name, "", ""), outcomes)


def test_a_trial_has_a_process_and_a_peak_of_its_own(script: Variant) -> None:
    here = bytearray(300_000_000)  # which the process must not count
    trial = trials.run_trial(script, {})
    assert len(here) and trial.units == 8
    assert 50 < trial.megabytes < 200
    assert trial.seconds > 0.1 and trial.cpu_seconds >= 0.15  # of the child, too


def test_a_trial_with_parts_lasts_as_long_as_they_do(script: Variant) -> None:
    arguments = {"units": 8, "parts": {"a": 1.0, "b": 3.0}}
    trial = trials.run_trial(replace(script, arguments=arguments), {})
    assert trial.seconds == 4.0 and trial.parts == {"a": 1.0, "b": 3.0}


def test_a_large_parent_holds_torch_and_a_heap(script: Variant) -> None:
    pytest.importorskip("torch")
    small = trials.run_trial(script, {})
    assert trials.run_trial(replace(script, gigabytes=0.2), {}).megabytes > small.megabytes + 200


def test_settings_of_all_processes(script: Variant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MALLOC_TOP_PAD_", raising=False)
    with_settings = trials.run_trial(script, trials.environment(tuned=True, threads=None))
    without = trials.run_trial(script, trials.environment(tuned=False, threads=3))
    assert with_settings.figures == {"setting": 2.0**28} and without.figures == {"setting": 0.0}
    assert trials.environment(tuned=False, threads=3)["OMP_NUM_THREADS"] == "3"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [({"fail": True}, "this went wrong"), ({"wrong": ["p/7"]}, "program does not pass: p/7$")],
)
def test_failed_trial_is_named(script: Variant, arguments: dict[str, object], reason: str) -> None:
    broken = replace(script, arguments={"units": 8, **arguments})
    with pytest.raises(BenchmarkError, match=rf"script ended with code 1: [\s\S]*{reason}"):
        trials.run_trial(broken, {})


def test_a_command_ends_with_the_reason_of_a_failed_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise BenchmarkError("a variant failed")

    monkeypatch.setattr(sys, "argv", ["command"])
    with pytest.raises(SystemExit, match="error: a variant failed"):
        trials.run(fail)


def test_variants_alternate(script: Variant, capsys: pytest.CaptureFixture[str]) -> None:
    results = trials.compare([script, replace(script, name="other")], 2, {})
    lines = [line.partition(" (")[0] for line in capsys.readouterr().err.splitlines()]
    assert lines == [
        "round 1 of 2: script",
        "round 1 of 2: other",
        "round 2 of 2: other",
        "round 2 of 2: script",
    ]
    assert [len(each.trials) for each in results.values()] == [2, 2]


def test_ratios_are_taken_within_each_round() -> None:
    quick = measured(
        "quick", Measurement(10, 1.0, 2.0, 50.0, {}, {}), Measurement(10, 4.0, 2.0, 50.0, {}, {})
    )
    slow = measured(
        "slow", Measurement(20, 4.0, 2.0, 100.0, {}, {}), Measurement(20, 16.0, 2.0, 200.0, {}, {})
    )
    assert quick.times_faster(slow) == Spread(2.0, 2.0, 2.0)
    assert quick.times_cpu(slow).median == 2.0
    assert speed(Goal("a"), quick, slow).note == "2 times the CPU time"
    assert quick.times_memory(slow) == Spread(0.375, 0.25, 0.5)


def test_a_goal_is_met_by_the_median() -> None:
    fast, slow = Goal("a", at_least=2.0), Goal("b", "ms", at_most=2.0)
    for median, least, most in ((1.9, False, True), (2.0, True, True), (2.1, True, False)):
        value = Spread(median, 0.0, 9.0)
        assert Judgement(fast, value).met is least
        assert Judgement(slow, value).met is most
    assert Judgement(fast, None, "not installed").met is None
    assert Judgement(Goal("c"), Spread(1.0, 1.0, 1.0)).met is None


def test_report_and_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    section = [
        measured("one", Measurement(10, 4.0, 2.0, 50.0, {"a": 1.0, "b": 3.0}, {"norm": 2.0}))
    ]
    goals = [Judgement(Goal("speed", at_least=0.75), Spread(0.5, 0.25, 1.0), "[note]")]
    report = Report("Title", {"G": 4}, {"PYTHONPATH": "/x", "A": "1"}, [section], goals)
    assert table("Title", "tokens", [section, section]).row_count == 2
    assert goal_table(goals).row_count == 1
    report.finish(tmp_path / "report.json")
    shown = capsys.readouterr().out
    assert "settings: G 4" in shown and "A=1" in shown and "/x" not in shown
    assert ">= 0.75 x" in shown and "0.5 (0.25 to 1) x" in shown and "NO" in shown
    content = json.loads((tmp_path / "report.json").read_text())
    assert content["sections"][0]["one"][0]["units"] == 10
    assert content["settings"] == {"G": "4"} and content["judgements"][0]["met"] is False


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
