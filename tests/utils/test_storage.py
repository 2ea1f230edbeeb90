"""Run folders: their files, and the lock for their one writer."""

from __future__ import annotations

import csv
import errno
import fcntl
import json
import logging
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.utils.storage import (
    LOCK,
    DamagedFile,
    FolderInUse,
    RunFolder,
    append_json_line,
    incomplete_line,
    keep_json_lines,
    lock,
    read_json_lines,
    write_atomically,
    write_csv,
)
from tests.support.locks import holder


def test_the_names_in_a_run_folder_are_fixed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "a" / "run")
    assert folder.path.is_dir()
    names = "config.yaml manifest.json metrics.jsonl episodes.jsonl checkpoints report.html".split()
    assert [vars(folder)[name.partition(".")[0]].name for name in names] == names


def test_rows_are_appended_in_order_and_survive_any_text(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"update": n, "text": text} for n, text in enumerate(["a\nb", "\u2028", "ü😀", "\x00"])]
    for row in rows:
        append_json_line(path, row)
    assert list(read_json_lines(path)) == rows
    keep_json_lines(path, lambda row: row["update"] < 2)
    assert list(read_json_lines(path)) == rows[:2]


def test_a_line_that_was_cut_off_is_left_out_and_then_dropped(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    keep_json_lines(path, lambda row: True)
    assert list(read_json_lines(path)) == [] and not path.exists()
    append_json_line(path, {"update": 1})
    with path.open("a") as file:
        file.write('{"update": 2, "rew')
    assert list(read_json_lines(path)) == [{"update": 1}]
    keep_json_lines(path, lambda row: True)
    append_json_line(path, {"update": 2})
    assert list(read_json_lines(path)) == [{"update": 1}, {"update": 2}]


DAMAGED = [b'{"update": 2, "rew\n', b"\x00\x00\x00\n", b'{"text": "\xff"}\n', b"3\n", b"\n"]


@pytest.mark.parametrize("line", DAMAGED)
def test_a_damaged_line_is_named_with_its_file(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"update": 1}\n' + line + b'{"update": 3}\n')
    for read in (lambda: list(read_json_lines(path)), lambda: keep_json_lines(path, bool)):
        with pytest.raises(DamagedFile, match=f"^{path}, line 2 is damaged .*from a copy$"):
            read()
    assert path.read_bytes().count(b"\n") == 3


@pytest.mark.parametrize("line", DAMAGED)
def test_damaged_lines_that_are_dropped_anyway_do_not_keep_a_run_from_going_on(
    tmp_path: Path, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"update": 1}\n' + line + b'{"update": 3}\n')
    keep_json_lines(path, lambda row: row["update"] < 3)
    assert list(read_json_lines(path)) == [{"update": 1}]
    assert f"{path}, line 2 is damaged: this row and the rows after it are removed" in caplog.text


def test_partial_last_lines_are_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"update": 1}\n{"update": 2}')
    assert list(read_json_lines(path)) == [{"update": 1}, {"update": 2}]  # it lacks its end alone
    assert incomplete_line(path) is None
    path.write_text('{"update": 1}\n{"upd')
    with caplog.at_level(logging.WARNING):
        assert list(read_json_lines(path, growing=True)) == [{"update": 1}]
        assert not caplog.records
        for _ in range(2):
            assert list(read_json_lines(path)) == [{"update": 1}]
    (record,) = caplog.records
    assert f"{path}, line 2: the last line is incomplete" in record.getMessage()
    assert incomplete_line(path) == 2


@pytest.mark.parametrize("content", [None, "{", "[]", ""])
def test_a_damaged_manifest_is_named(tmp_path: Path, content: str | None) -> None:
    folder = RunFolder(tmp_path)
    if content is not None:
        folder.manifest.write_text(content)
    with pytest.raises(DamagedFile, match=f"^{tmp_path}/manifest.json is damaged"):
        folder.read_manifest()


def test_an_atomic_write_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_atomically(path, "old")
    write_atomically(path, "new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "text", ['=HYPERLINK("http://x","y")', "+1+2", "-2+3", "@SUM(A1)", "\t=1", "\r=1"]
)
def test_a_cell_that_is_a_formula_is_escaped(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table.csv"
    write_csv(path, [text, "b"], [[text, 1]])
    with path.open(newline="") as file:
        assert list(csv.reader(file)) == [[f"'{text}", "b"], [f"'{text}", "1"]]


def test_numbers_and_other_texts_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_csv(path, ["a"], [[-1.5], ["-1.5"], ["+2e-3"], ["a=b"], [None]])
    assert path.read_text() == 'a\n-1.5\n-1.5\n+2e-3\na=b\n""\n'


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
    manifest = {"seed": 3, "versions": {"numpy": "2"}}
    folder.write_manifest(manifest)
    with folder.exclusive_access(), folder.exclusive_access():
        assert RunFolder(tmp_path).read_manifest() == manifest
        with pytest.raises(FolderInUse), RunFolder(tmp_path).exclusive_access():
            pass
    with RunFolder(tmp_path).exclusive_access():
        pass
