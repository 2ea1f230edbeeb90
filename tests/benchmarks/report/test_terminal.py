"""A run in a terminal, read from files alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from llm_decpomdp.benchmarks.report.terminal import RunView, newest_row, plot, watch_run
from llm_decpomdp.utils.storage import LOCK, RunFolder
from tests.benchmarks.report_runs import finished


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return finished(RunFolder(tmp_path_factory.mktemp("runs") / "run"))


def shown(folder: RunFolder, writes: bool = False) -> str:
    """What a terminal of 100 columns shows."""
    console = Console(width=100, record=True, quiet=False, file=open("/dev/null", "w"))
    view = RunView(folder.path)
    view.read()
    console.print(view.draw(writes, 100))
    return console.export_text()


def test_a_run_is_shown_from_its_files(folder: RunFolder) -> None:
    text = shown(folder)
    assert "run · magrpo · coophumaneval-v0 · no process writes to it" in text
    assert "6 updates" in text
    assert "evaluations: 0.750 → 2.025" in text
    assert "mean team reward, 0.30 to 0.55; newest 0.55" in text
    assert "newest answers: eval/7, evaluation, turn 1, reward 1.60" in text
    # The answers of both agents are side by side.
    assert any("def aux_0" in line and "def main_0" in line for line in text.splitlines())
    assert "newest row" in shown(folder, writes=True)


def test_only_new_rows_are_read_and_incomplete_ones_wait(tmp_path: Path) -> None:
    run, view = RunFolder(tmp_path / "run"), RunView(tmp_path / "run")
    view.read()
    row = json.dumps({"update": 1, "kind": "train", "reward_mean": 1.0})
    run.metrics.write_text(f"{row}\n{row[:20]}", encoding="utf-8")
    view.read()
    assert len(view.updates) == 1
    run.metrics.write_text(f"{row}\n{row}\n", encoding="utf-8")
    view.read()
    assert len(view.updates) == 2
    run.metrics.write_text(f"{row}\n", encoding="utf-8")  # it went on from a checkpoint
    view.read()
    assert len(view.updates) == 1


def test_the_newest_row_is_the_last_complete_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert newest_row(path) is None
    path.write_text('{"a": 1}\n{"a": 2}\n{"a"', encoding="utf-8")
    assert newest_row(path) == {"a": 2}


def test_it_ends_without_any_writer(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, looks = folder.path / LOCK, []
    lock.touch()

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            lock.unlink()

    monkeypatch.setattr("llm_decpomdp.benchmarks.report.terminal.time.sleep", sleep)
    watch_run(folder.path, 0.5, Console(width=80, file=open("/dev/null", "w")))
    assert looks == [0.5, 0.5]


def test_a_curve_fits_the_width() -> None:
    lines = plot(list(range(1000)), 40)
    assert {len(line) for line in lines} == {40}
    assert lines[0][-1] == "█" and lines[-1][0] == "▁"
