"""The lock of a folder, held by this process and by others."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.utils.storage import LOCK, FolderInUse, RunFolder, lock
from tests.support.locks import holder


def test_a_second_process_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        about = json.loads((tmp_path / LOCK).read_text())
        assert about["process"] == process.pid and about["started"]
        told = (
            rf"^process {process.pid} on {about['host']} \(.*-c .*\) is writing to {tmp_path}: wait"
        )
        with pytest.raises(FolderInUse, match=f"(?s){told}"), lock(tmp_path):
            pass
    with lock(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_the_file_of_a_killed_process_blocks_nothing(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert (tmp_path / LOCK).exists()
        with lock(tmp_path):
            assert json.loads((tmp_path / LOCK).read_text())["process"] == os.getpid()


def test_a_file_that_was_removed_by_its_owner_meanwhile_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exclusive_access = fcntl.flock

    def removed_first(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", exclusive_access)
        (tmp_path / LOCK).unlink()
        exclusive_access(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removed_first)
    with lock(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["process"] == os.getpid()
        with pytest.raises(FolderInUse), lock(tmp_path):
            pass


def test_a_file_system_without_locks_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with caplog.at_level(logging.WARNING), lock(tmp_path), lock(tmp_path):
        pass
    assert f"the file system of {tmp_path} has no locks (No locks available)" in caplog.text


def test_a_run_folder_is_locked_once_and_read_by_anybody(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_manifest({"seed": 1})
    with folder.exclusive_access(), folder.exclusive_access():
        assert RunFolder(tmp_path).read_manifest() == {"seed": 1}
        with pytest.raises(FolderInUse), RunFolder(tmp_path).exclusive_access():
            pass
    with RunFolder(tmp_path).exclusive_access():
        pass
