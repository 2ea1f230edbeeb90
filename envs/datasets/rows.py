"""The rows of a data set: files of rows, the fields of a row, and errors about bad rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_decpomdp.utils.text import read_utf8

SHOWN_ROWS = 10
"""Maximum number of bad rows in an error."""


GZIP = b"\x1f\x8b"
"""First bytes of a compressed file."""


Row = Mapping[str, Any]


class BadRow(ValueError):
    """A row that cannot be a task; the text names the field."""


def bundled_rows(name: str) -> list[Row]:
    """Return the rows of a file of this package, such as `mbpp.jsonl`."""
    return read_rows(Path(__file__).parents[1] / "data" / name)


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a JSONL, JSON (a list of objects) or Parquet file.

    In place of a line that is not JSON the list has a `BadRow`, so that `refuse` can report several at once.

    Raises:
        ValueError: If the file has another ending or encoding, or holds no list of rows.
    """
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        try:
            rows: list[Row] = pyarrow.parquet.read_table(path).to_pylist()
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"{path} is no Parquet file: {error}") from None
        return rows
    with path.open("rb") as file:
        if file.read(len(GZIP)) == GZIP:
            raise ValueError(f"{path} is compressed with gzip: unpack it first, as with gunzip")
    text = read_utf8(path)
    if path.suffix == ".json":
        entries = _from_json(text)
        if isinstance(entries, BadRow):
            raise ValueError(f"{path}: {entries}")
        if not isinstance(entries, list):
            raise ValueError(f"{path} must hold a list of objects, got {type(entries).__name__}")
        return entries
    if path.suffix != ".jsonl":
        raise ValueError(f"{path} must end in .jsonl, .json or .parquet")
    # Not `splitlines`: JSON texts may contain other line separators of Unicode.
    lines = text.rstrip().split("\n") if text.strip() else []
    return [_from_json(line) for line in lines]


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        return BadRow(f"not valid JSON: {error}")


def require_row(row: object) -> Row:
    """Return an entry of `read_rows` if it is a row.

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
    """Return the error that a row lacks a field, with the fields that it has."""
    fields = ", ".join(map(repr, row)) or "none"
    return f"field {name!r} is missing; the row has {fields}: docs/data.md has the columns"


def refuse(found: str, bad: Mapping[int, str], rows: int) -> None:
    """Raise a `ValueError` for the bad rows of a file, if there are any."""
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


# Rows whose tests fail every program that follows the whole text, with the reason (docs/data.md). Asserts count
# from 1. They were found as follows:
# - HumanEval: `llm-decpomdp check data` compares the examples in the texts with the asserts. In these rows the
#   words agree with the asserts, and the examples do not.
# - CoopHumanEval: a solution was written from each text, and every assert that it fails was examined.
# - MBPP: every reference passes. In these rows an assert contradicts the text, or tests something else.
KNOWN_ISSUES: dict[str, str] = {
    row["task_id"]: row["issue"] for row in bundled_rows("known_issues.jsonl")
}
