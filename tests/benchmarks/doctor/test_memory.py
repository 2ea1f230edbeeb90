"""The memory that the demo needs is compared with what is free before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.doctor import memory
from tests.support.commands import call


@pytest.fixture
def meminfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 2.25 GiB free and no container around it."""
    path = tmp_path / "meminfo"
    path.write_text(f"MemTotal: 8000000 kB\nMemAvailable:    {int(2.25 * 2**20)} kB\n")
    monkeypatch.setattr(memory, "MEMINFO", path)
    monkeypatch.setattr(memory, "CGROUP", tmp_path / "cgroup")
    return path


def test_the_demo_says_what_is_free_and_what_it_needs(
    meminfo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("demo") == 1
    told = capsys.readouterr().err
    assert told.startswith("error: the demo needs 3.0 GiB of memory, and 2.2 of ")
    assert "--override algorithm.train_batch_size=1" in told


def test_doctor_compares_too(meminfo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("doctor") == 0
    assert "2.2 GiB of memory are free: `llm-decpomdp demo` needs 3.0" in capsys.readouterr().out


def test_the_limit_of_a_container_counts(meminfo: Path) -> None:
    memory.CGROUP.mkdir()
    (memory.CGROUP / "memory.max").write_text("max\n")
    assert memory.free() == 2.25
    (memory.CGROUP / "memory.max").write_text(f"{2 * memory.GIB}\n")
    (memory.CGROUP / "memory.current").write_text(f"{memory.GIB}\n")
    (memory.CGROUP / "memory.stat").write_text(f"anon 5\ninactive_file {memory.GIB // 2}\n")
    assert memory.free() == 1.5


def test_a_system_that_does_not_tell_is_not_held_up(meminfo: Path) -> None:
    meminfo.unlink()
    assert memory.free() is None
    memory.require_for_demo()
