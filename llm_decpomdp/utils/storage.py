"""Run folders: the files of a run, from which a report can be made again, and the lock for its one writer."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import logging
import os
import shlex
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

LOCK = "lock.json"
"""Name of the file that is locked; it holds host, process id, command and start of the process that writes."""

LONGEST = 500
"""Maximum number of characters of a command in the file."""

logger = logging.getLogger(__name__)


class FolderInUse(RuntimeError):
    """Another process writes to a folder; the text names its host, its process id and its command."""


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold the lock of an existing folder.

    The kernel releases the lock when the process ends, also if it is killed. A file without a lock blocks nothing.
    On a file system without locks, such as some network file systems, it logs a warning and holds no lock.

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
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            content = os.pread(descriptor, 1 << 16, 0)
            os.close(descriptor)
            raise FolderInUse(
                f"{_owner(content)} is writing to {path.parent}: {_remedy(content)}"
            ) from None
        except OSError as error:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            logger.warning(
                "the file system of %s has no locks (%s): make sure that no other process writes to it",
                path.parent,
                error.strerror,
            )
            return None
        if not _is_still_there(path, descriptor):  # its owner has just ended, and removed it
            os.close(descriptor)
            continue
        with suppress(OSError):  # on a full disk the lock holds, and says less
            os.ftruncate(descriptor, 0)
            os.write(descriptor, _about_this_process().encode("utf-8", "replace"))
        return descriptor


def _is_still_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _about_this_process() -> str:
    about = {
        "host": socket.gethostname(),
        "process": os.getpid(),
        "command": shlex.join(sys.orig_argv)[:LONGEST],
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    return json.dumps(about) + "\n"


def _remedy(content: bytes) -> str:
    """Say what to do. A worker that runs the script of its parent from the beginning needs another remedy."""
    with suppress(ValueError, AttributeError):
        if json.loads(content).get("process") == os.getppid():
            return (
                "it has started this process. If this is one of its workers, put what the script does under "
                "`if __name__ == '__main__':`, since workers import the script"
            )
    return "wait until it ends, or choose another folder"


def _owner(content: bytes) -> str:
    try:
        about = json.loads(content)
        return f"process {about['process']} on {about['host']} ({about['command']}, since {about['started']})"
    except (ValueError, KeyError, TypeError):  # it has not written who it is yet
        return "another process"


# Run folder: the files of a run, from which a report can be made again


FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a cell that a spreadsheet takes for a formula."""


class DamagedFile(ValueError):
    """A file of a run that cannot be read.

    Args:
        where: The file, and the line if it has lines.
        problem: What is wrong with it.
    """

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
        """Keep other processes from writing to the folder in this context; within another one it changes nothing.

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
        """Read `manifest.json`.

        Raises:
            DamagedFile: If there is none, or it cannot be read.
        """
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
    """Yield the rows of a JSON Lines file; none where there is no file.

    Arguments and errors as of `numbered_rows`.
    """
    return (row for _, row in numbered_rows(path, growing=growing))


def numbered_rows(path: Path, *, growing: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a JSON Lines file, each with its line, counted from 1; none where there is no file.

    A last line that is incomplete is left out with a warning.

    Args:
        path: The file.
        growing: True for a file that another process writes to, whose last line is often incomplete: no warning.

    Raises:
        DamagedFile: If another line is no row.
    """
    for number, row in _lines(path):
        if isinstance(row, DamagedFile):
            raise row
        if row is not None:
            yield number, row
        elif not growing and (path, number) not in _reported:
            _reported.add((path, number))
            logger.warning("%s", incomplete(path, number))


def incomplete(path: Path, line: int) -> str:
    """Return the text of the warning about an incomplete last line."""
    return (
        f"{path}, line {line}: the last line is incomplete, because the process that wrote it was stopped or is "
        "still writing; the line is ignored"
    )


def incomplete_line(path: Path) -> int | None:
    """Return the number of a last line that is incomplete; `None` if there is none."""
    return next((number for number, row in _lines(path) if row is None), None)


_reported: set[tuple[Path, int]] = set()
"""Incomplete lines that a warning has named, so that a command which reads a file several times warns once."""


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | DamagedFile | None]]:
    """Yield the lines of a JSON Lines file from 1: rows, errors, and `None` for an incomplete last one."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                problem = None if isinstance(row, dict) else f"a {type(row).__name__}"
            except ValueError as error:
                row, problem = None, str(error)
            if problem is None:
                yield number, row
            elif line.endswith(b"\n"):
                yield number, DamagedFile(f"{path}, line {number}", f"no JSON object: {problem}")
            else:
                yield number, None


def keep_json_lines(path: Path, keep: Callable[[dict[str, Any]], bool]) -> None:
    """Drop the rows for which `keep` is false, as when a run continues from an older checkpoint.

    Damaged lines after the last row that is kept are dropped with a warning.

    Raises:
        DamagedFile: If a damaged line stands before a row that is kept.
    """
    if not path.exists():
        return
    rows: list[dict[str, Any]] = []
    damage: DamagedFile | None = None
    for number, row in _lines(path):
        if isinstance(row, DamagedFile):
            damage = damage or row
        elif row is None:
            logger.warning("%s", incomplete(path, number))
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
    csv.writer(text).writerow(
        map(_cell, cells)
    )  # with "\r\n", so that both are quoted within cells
    return text.getvalue().removesuffix("\r\n") + "\n"


def _cell(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(FORMULA):
        return value
    try:
        float(value)  # a negative number is none
    except ValueError:
        return f"'{value}"
    return value
