"""What a shell completes."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.cli.console import (
    complete_config,
    complete_environment,
    complete_key,
    complete_run,
)


def test_names_are_completed() -> None:
    assert complete_environment("build-") == ["build-house-v0", "build-word-v0"]
    assert complete_config("demo") == ["demo", "demo_tldr"]
    assert complete_key("output.report") == ["output.report=", "output.report_every="]
    assert complete_key("nothing") == []


def test_folders_of_runs_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert complete_run("") == []
    for name in ("runs/a", "runs/b", "runs/other", "elsewhere"):
        Path(name).mkdir(parents=True)
    for name in ("a", "b"):
        (Path("runs") / name / "metrics.jsonl").touch()
    assert complete_run("") == ["runs/a", "runs/b"]
    assert complete_run("runs/b") == ["runs/b"]
    assert complete_run("else") == ["elsewhere/"]
