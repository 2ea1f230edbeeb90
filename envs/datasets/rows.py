"""Rows of data: how a file or a data set on the Hugging Face hub is read, and how bad rows are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_decpomdp.utils.hub import hub_reachable
from llm_decpomdp.utils.text import read_utf8

SHOWN_ROWS = 10
"""Number of bad rows that an error names."""

ENDINGS = (".jsonl", ".json", ".parquet")

GZIP = b"\x1f\x8b"
"""First bytes of a compressed file."""

Row = Mapping[str, Any]


class BadRow(ValueError):
    """Row that cannot be a task; the text names the field."""


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a JSONL, JSON (a list of objects) or Parquet file.

    A line that is no JSON is there as the `BadRow` that says so, for whoever makes tasks of the rows to refuse
    together with others.

    Raises:
        ValueError: If the file has another ending or encoding, or holds no list of rows.
    """
    if path.suffix == ".parquet":
        return _from_parquet(path)
    text = _text(path)
    if path.suffix == ".json":
        entries = _from_json(text)
        if isinstance(entries, BadRow):
            raise ValueError(f"{path}: {entries}")
        if not isinstance(entries, list):
            raise ValueError(f"{path} must hold a list of objects, got {type(entries).__name__}")
        return entries
    if path.suffix != ".jsonl":
        raise ValueError(f"{path} must end in .jsonl, .json or .parquet")
    # Not `splitlines`: JSON texts may hold other line separators of Unicode. Blank lines stand at the end only.
    lines = text.rstrip().split("\n") if text.strip() else []
    return [_from_json(line) for line in lines]


def _from_parquet(path: Path) -> list[Row]:
    import pyarrow
    import pyarrow.parquet

    try:
        rows: list[Row] = pyarrow.parquet.read_table(path).to_pylist()
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path} is no Parquet file: {error}") from None
    return rows


def _text(path: Path) -> str:
    """Return a file's text: UTF-8, with or without a byte order mark."""
    with path.open("rb") as file:
        if file.read(len(GZIP)) == GZIP:
            raise ValueError(f"{path} is compressed with gzip: unpack it first, as with gunzip")
    return read_utf8(path)


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        return BadRow(f"not valid JSON: {error}")


def require_row(row: object) -> Row:
    """Return a row as `read_rows` gives it, if it is one.

    Raises:
        BadRow: If it is none.
    """
    if isinstance(row, BadRow):
        raise row
    if not isinstance(row, Mapping):
        raise BadRow(f"a row must be an object, got {type(row).__name__}")
    return row


def text_field(row: Row, name: str) -> str:
    """Return a row's field, which must be a text that is not empty.

    Raises:
        BadRow: If it isn't.
    """
    if name not in row:
        raise BadRow(missing(row, name))
    value = row[name]
    if not isinstance(value, str) or not value.strip():
        raise BadRow(f"field {name!r} must be a text that is not empty, got {value!r}")
    return value


def missing(row: Row, name: str) -> str:
    """Return the error that a row lacks a field, with those that it has."""
    fields = ", ".join(map(repr, row)) or "none"
    return f"field {name!r} is missing; the row has {fields}: docs/data.md has the columns"


def refuse(found: str, bad: Mapping[int, str], rows: int) -> None:
    """Raise a `ValueError` for the bad rows of a file, if there are any.

    Args:
        found: The file.
        bad: Errors by line, from 1.
        rows: Number of all rows.
    """
    if not bad:
        return
    if len(bad) == 1:
        ((line, text),) = bad.items()
        raise ValueError(f"{found}, line {line}: {text}")
    errors: dict[str, list[str]] = {}
    for line in list(bad)[:SHOWN_ROWS]:
        errors.setdefault(bad[line], []).append(str(line))
    parts = [
        f"  line{'s' * (len(lines) > 1)} {', '.join(lines)}: {text}"
        for text, lines in errors.items()
    ]
    more = len(bad) - SHOWN_ROWS
    parts += [f"  ... and {more} more"] if more > 0 else []
    raise ValueError("\n".join([f"{found}: {len(bad)} of {rows} rows are bad", *parts]))


# Data sets on the Hugging Face hub: a probe, and their rows, with the commit that they are of


def hub_has(repository: str) -> bool:
    """Return True if the hub answers for this data set now, or it is a local folder."""
    return Path(repository).is_dir() or hub_reachable(f"/api/datasets/{repository}")


def hub_rows(
    repository: str, config: str | None, split: str, revision: str
) -> tuple[list[Mapping[str, Any]], str]:
    """Return the rows of a data set, and the commit that they are of.

    Args:
        repository: Its name on the hub, or a local folder in the hub's format, which has no commits.
        config: One of its configurations.
        split: A split, or several joined by `+`.
        revision: A commit, tag or branch; what a branch is now is looked up once, so that rows and commit agree.

    Raises:
        OSError: If the hub does not give it.
        ValueError: If there is no such configuration or split.
    """
    from datasets import load_dataset

    if Path(repository).is_dir():
        return list(load_dataset(repository, config, split=split)), ""
    from huggingface_hub import HfApi

    # A branch may move between the two requests; rows and recorded commit must agree.
    commit = str(HfApi().dataset_info(repository, revision=revision).sha)
    return list(load_dataset(repository, config, split=split, revision=commit)), commit
