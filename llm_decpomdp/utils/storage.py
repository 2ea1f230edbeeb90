"""Run folder: the files of a run, from which a report can be made again."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a cell that a spreadsheet takes for a formula."""


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

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write `manifest.json`."""
        write_atomically(self.manifest, json.dumps(manifest, indent=2, sort_keys=True) + "\n")

    def read_manifest(self) -> dict[str, Any]:
        """Read `manifest.json`."""
        manifest: dict[str, Any] = json.loads(self.manifest.read_text(encoding="utf-8"))
        return manifest


def append_json_line(path: Path, row: Mapping[str, Any]) -> None:
    """Add one row to a JSON Lines file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a JSON Lines file; none where there is no file.

    A last line without its line end was cut off while being written, and is left out.
    """
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


def keep_json_lines(path: Path, keep: Callable[[dict[str, Any]], bool]) -> None:
    """Drop the rows for which `keep` is false, as when a run continues from an older checkpoint."""
    if path.exists():
        rows = [row for row in read_json_lines(path) if keep(row)]
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
