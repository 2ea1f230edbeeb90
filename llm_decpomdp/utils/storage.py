"""Run folders: the files of a run, from which a report can be made again, and the lock for its one writer."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import logging
import math
import os
import shlex
import socket
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, is_dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from llm_decpomdp.utils.text import warn_once

LOCK = "lock.json"
"""Name of the file that is locked; it holds host, process id, command and start of the process that writes."""

LONGEST = 500
"""Maximum number of characters of a command in the file."""

logger = logging.getLogger(__name__)


class FolderInUse(RuntimeError):
    """Another process writes to a folder; the text names its host, its process id and its command."""


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold the lock of an existing folder; on a file system without locks it logs a warning and holds none.

    Raises:
        FolderInUse: If another process holds it.
        OSError: If the file cannot be written.
    """
    path = folder / LOCK
    descriptor = _acquire(path)
    try:
        yield
    finally:
        if descriptor is not None:
            path.unlink(missing_ok=True)  # before the lock is released
            os.close(descriptor)


def _acquire(path: Path) -> int | None:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            # The kernel releases it when the process ends, also if it is killed: an old file blocks nothing.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            content = os.pread(descriptor, 1 << 16, 0)
            os.close(descriptor)
            raise FolderInUse(_describe_owner(content, path.parent)) from None
        except OSError as error:  # such as of a network file system
            os.close(descriptor)
            path.unlink(missing_ok=True)
            logger.warning(
                "the file system of %s has no locks (%s): make sure that no other process writes to it",
                path.parent,
                error.strerror,
            )
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                break
        os.close(descriptor)  # the owner has just ended, and removed the file
    about = {
        "host": socket.gethostname(),
        "process": os.getpid(),
        "command": shlex.join(sys.orig_argv)[:LONGEST],
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    with suppress(OSError):  # on a full disk the lock holds without a description
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{json.dumps(about)}\n".encode("utf-8", "replace"))
    return descriptor


def _describe_owner(content: bytes, folder: Path) -> str:
    owner, remedy = "another process", "wait until it ends, or choose another folder"
    with suppress(ValueError, KeyError, TypeError):  # of an owner that has not written it yet
        about = json.loads(content)
        owner = f"process {about['process']} on {about['host']} ({about['command']}, since {about['started']})"
        # A worker may run the script of its parent from the beginning.
        if about["process"] == os.getppid():
            remedy = (
                "it has started this process. If this is one of its workers, put what the script does under "
                "`if __name__ == '__main__':`, since workers import the script"
            )
    return f"{owner} is writing to {folder}: {remedy}"


FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a formula in a spreadsheet."""


class DamagedFile(ValueError):
    """A file of a run that cannot be read: `where` is the file, and the line if it has lines."""

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        super().__init__(f"{where} is damaged ({problem}): restore the file from a copy")


def write_atomically(path: Path, text: str) -> None:
    """Write `text` so that a reader sees the old file or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


class RunFolder:
    """A folder with the fixed names of a run.

    - `config.yaml`: the configuration as resolved.
    - `manifest.json`: versions, seeds, data fingerprint, git commit.
    - `metrics.jsonl`: one row for each update (`kind: train`) and each evaluation (`kind: eval`).
    - `episodes.jsonl`: one row for each chain of groups.
    - `checkpoints/`: the states from which a run continues.
    - `report.html`.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self.config = self.path / "config.yaml"
        self.manifest = self.path / "manifest.json"
        self.metrics = self.path / "metrics.jsonl"
        self.episodes = self.path / "episodes.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.report = self.path / "report.html"
        self._locked = False

    @contextmanager
    def exclusive_access(self) -> Iterator[None]:
        """Keep other processes from writing to the folder in this context, which may be nested.

        Raises:
            FolderInUse: If another process writes to it.
        """
        if self._locked:
            yield
            return
        with lock(self.path):
            self._locked = True
            try:
                yield
            finally:
                self._locked = False

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write `manifest.json`."""
        write_atomically(self.manifest, json.dumps(manifest, indent=2, sort_keys=True) + "\n")

    def read_manifest(self) -> dict[str, Any]:
        """Read `manifest.json`; raises `DamagedFile` if there is none, or it cannot be read."""
        try:
            manifest = json.loads(self.manifest.read_bytes())
        except FileNotFoundError:
            raise DamagedFile(str(self.manifest), "it is missing") from None
        except ValueError as error:
            raise DamagedFile(str(self.manifest), f"no JSON: {error}") from None
        if not isinstance(manifest, dict):
            raise DamagedFile(str(self.manifest), "no JSON object")
        return manifest


def append_json_line(path: Path, row: Mapping[str, Any]) -> None:
    """Add one row to a JSON Lines file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def read_json_lines(path: Path, *, growing: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the rows of a JSON Lines file, with the arguments and errors of `numbered_rows`."""
    return (row for _, row in numbered_rows(path, growing=growing))


def numbered_rows(
    path: Path, *, growing: bool = False, lines: Container[int] | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a JSON Lines file, each with its line, counted from 1; none without a file.

    An incomplete last line is left out with a warning.

    Args:
        path: The file.
        growing: True for a file that another process writes to: its last line is often incomplete, so no warning.
        lines: The lines that are read, which saves time in a large file; all if `None`.

    Raises:
        DamagedFile: If another line is no row.
    """
    for number, row in _lines(path, lines):
        if isinstance(row, DamagedFile):
            raise row
        if row is not None:
            yield number, row
        elif not growing:
            warn_once(logger, INCOMPLETE, path, number)


def incomplete_line(path: Path) -> int | None:
    """Return the number of an incomplete last line; `None` without one."""
    return next((number for number, row in _lines(path) if row is None), None)


INCOMPLETE = (
    "%s, line %d: the last line is incomplete, because the process that wrote it was stopped or is still writing; "
    "the line is ignored"
)


def _lines(
    path: Path, wanted: Container[int] | None = None
) -> Iterator[tuple[int, dict[str, Any] | DamagedFile | None]]:
    """Yield the lines of a JSON Lines file from 1: rows, errors, and `None` for an incomplete last one."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if wanted is not None and number not in wanted:
                continue
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError(f"a {type(row).__name__}")
                yield number, row
            except ValueError as error:
                damage = DamagedFile(f"{path}, line {number}", f"no JSON object: {error}")
                yield number, damage if line.endswith(b"\n") else None


def keep_json_lines(path: Path, keep: Callable[[dict[str, Any]], bool]) -> None:
    """Drop the rows for which `keep` is false, as when a run continues from an older checkpoint.

    Damaged lines after the last kept row are dropped with a warning.

    Raises:
        DamagedFile: If there is a damaged line before a kept row.
    """
    if not path.exists():
        return
    rows: list[dict[str, Any]] = []
    damage: DamagedFile | None = None
    for number, row in _lines(path):
        if isinstance(row, DamagedFile):
            damage = damage or row
        elif row is None:
            logger.warning(INCOMPLETE, path, number)
        elif keep(row):
            if damage is not None:
                raise damage
            rows.append(row)
    if damage is not None:
        logger.warning("%s is damaged: this row and the rows after it are removed", damage.where)
    write_atomically(path, "".join(json.dumps(row) + "\n" for row in rows))


def write_csv(path: Path, header: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file of a header and lines; `None` is an empty cell.

    A text that a spreadsheet would run as a formula begins with an apostrophe, as OWASP recommends.
    """
    write_atomically(path, "".join(map(_csv_line, [header, *lines])))


def _csv_line(cells: Iterable[Any]) -> str:
    text = io.StringIO(newline="")
    # Written with "\r\n", so that both characters are quoted within cells.
    csv.writer(text).writerow(map(_cell, cells))
    return text.getvalue().removesuffix("\r\n") + "\n"


def _cell(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(FORMULA):
        return value
    try:
        float(value)  # a negative number is none
    except ValueError:
        return f"'{value}"
    return value


def to_json(value: Any) -> Any:
    """Return a value of numbers, texts, paths, dataclasses and containers for JSON, infinities as null."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(of) for key, of in value.items()}
    if isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, str):
        return [to_json(of) for of in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (str, int, float, type(None))):
        return value
    # A number of numpy, or what has no form in JSON, such as a path.
    return to_json(value.item()) if hasattr(value, "item") else str(value)
