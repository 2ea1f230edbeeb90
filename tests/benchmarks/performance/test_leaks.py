"""The leak check finds nothing where there is nothing, and says what there is."""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest

from llm_decpomdp.benchmarks.performance.sandbox import leaks
from llm_decpomdp.benchmarks.performance.sandbox.leaks import Findings, Usage

IDLE = Usage("idle", 0, 6, 0, 50.0, 0.0, 0)
BUSY = Usage("busy", 4, 10, 23, 50.0, 16.0, 0)
CLEAN = Findings([IDLE, BUSY, BUSY, IDLE], Counter(passed=9), [], 1.0, workers=1)
LEAKS = [
    ({"processes": 5}, "processes: 5, more than 4"),
    ({"trainer_descriptors": 11}, "descriptors of the trainer: 11, more than 10"),
    ({"worker_descriptors": 24}, "descriptors of workers: 24, more than 23"),
    ({"trainer_megabytes": 61.0}, "MB of the trainer: 61, more than 60"),
    ({"worker_megabytes": 27.0}, "MB of workers: 27, more than 26"),
]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_every_kind_of_program_gets_its_verdict_and_leaves_nothing() -> None:
    alone = multiprocessing.get_context("spawn")  # other tests' pools may end at any moment
    with ProcessPoolExecutor(1, mp_context=alone) as process:
        programs = leaks.EVERY * len(leaks.UNUSUAL)
        findings = process.submit(leaks.measure, programs, workers=1, warm_up=8).result()
    assert findings.leaks() == []
    assert set(findings.statuses) == {"passed", *(status for status, _ in leaks.UNUSUAL.values())}
    before, _, end, closed = findings.usages
    assert (before.processes, closed.processes) == (end.processes - 4, end.processes - 4)


@pytest.mark.parametrize(("change", "leak"), LEAKS)
def test_what_there_is_more_of_at_the_end_has_leaked(change: dict[str, float], leak: str) -> None:
    grown = replace(BUSY, **change)  # type: ignore[arg-type]
    assert replace(CLEAN, usages=[IDLE, BUSY, grown, IDLE]).leaks() == [leak]


def test_what_is_left_after_closing_has_leaked() -> None:
    left = replace(IDLE, processes=1, temporary_files=2)
    assert replace(CLEAN, usages=[IDLE, BUSY, BUSY, left]).leaks() == [
        "processes after closing: 1, more than 0",
        "temporary files: 2, more than 0",
    ]


def test_the_command_fails_on_a_wrong_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = replace(CLEAN, wrong=["one that hangs: passed, not timeout"])
    for findings, code in ((CLEAN, None), (wrong, 1)):
        monkeypatch.setattr(leaks, "measure", lambda *_, found=findings: found)
        try:
            leaks.main(9, 1)
            ended = None
        except SystemExit as error:
            ended = error.code
        assert ended == code
    assert "LEAK: wrong verdict: one that hangs: passed, not timeout" in capsys.readouterr().out
