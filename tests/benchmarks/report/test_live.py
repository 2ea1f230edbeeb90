"""The page of a run that goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.report import live
from llm_decpomdp.benchmarks.report.page import RELOADS
from llm_decpomdp.utils.storage import RunFolder
from tests.benchmarks.report_runs import evaluate

TRAINER: Any = SimpleNamespace(total=40, learner=SimpleNamespace(updates=3))

ROW = {"reward_mean": 1.0}  # of an evaluation, as `on_evaluate` gets it: without an update


def evaluated(writer: live.LiveReport) -> None:
    writer.on_evaluate(TRAINER, ROW)
    writer.on_step_end(TRAINER)


def callback(folder: RunFolder, every: int = 1) -> live.LiveReport:
    config = Config()
    return live.LiveReport(
        replace(config, output=replace(config.output, report_every=every)), folder
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setattr("llm_decpomdp.benchmarks.report.charts.installed", lambda name: None)
    folder = RunFolder(tmp_path / "run")
    evaluate(folder, 0, [1.0, 2.0])
    return folder


def test_the_page_reloads_itself_until_the_run_ends(folder: RunFolder) -> None:
    writer = callback(folder)
    evaluated(writer)
    text = folder.report.read_text(encoding="utf-8")
    assert RELOADS in text
    assert "Training goes on: update 3 of 40" in text
    assert "One evaluation, without training" in text
    folder.write_manifest({"updates": 40})
    evaluated(callback(folder))
    assert "One evaluation, before training" in folder.report.read_text(encoding="utf-8")
    writer.on_train_end(TRAINER)
    assert RELOADS not in folder.report.read_text(encoding="utf-8")


def test_the_first_page_is_written_after_the_first_step(folder: RunFolder) -> None:
    writer = callback(folder)
    writer.on_evaluate(TRAINER, ROW)
    assert not folder.report.exists()
    writer.on_step_end(TRAINER)
    folder.report.unlink()
    writer.on_step_end(TRAINER)  # without another evaluation there is nothing new to write
    assert not folder.report.exists()


def test_evaluations_between_two_pages_write_none(folder: RunFolder) -> None:
    writer = callback(folder, every=2)
    evaluated(writer)
    assert not folder.report.exists()
    evaluated(writer)
    assert folder.report.exists()
    never = callback(folder, every=0)
    folder.report.unlink()
    evaluated(never)
    assert not folder.report.exists()


def test_pages_take_little_of_the_time(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: clock[0])
    writer, written = callback(folder), []

    def write(moment: str) -> None:
        written.append(clock[0])
        clock[0] += 10

    monkeypatch.setattr(writer, "_write", write)
    for moment in (100.0, 200.0, 299.0, 301.0):
        clock[0] = moment
        evaluated(writer)
    assert written == [100.0, 301.0]


def test_a_page_that_fails_ends_no_run(folder: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    folder.episodes.write_text("no row\n{}\n", encoding="utf-8")
    writer = callback(folder)
    for _ in range(2):
        evaluated(writer)
    assert caplog.text.count("no more pages during training: DamagedFile") == 1
