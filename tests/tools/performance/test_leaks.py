"""The leak check finds nothing where there is nothing, and says what there is."""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest

from tools.performance.sandbox import leaks
from tools.performance.sandbox.leaks import LeakReport, Usage

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


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


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
