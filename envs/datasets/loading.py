"""Sources of problems: a file, a folder of local copies, the Hugging Face hub, or this package.

`source="auto"` looks in this order: the folder that `LLM_DECPOMDP_DATA` names, the installed package that
carries the real data (HumanEval), the hub, and last the bundled stand-ins, with a warning. Nothing here waits
for a network that isn't there: the hub gets `llm_decpomdp.utils.hub.PROBE_SECONDS` to answer.

`KNOWN_ISSUES` are rows of the data sets whose tests no program that follows the whole text can pass, with the
reason. HumanEval: from `llm-decpomdp check data`, which compares the examples in the texts with the asserts. The
words agree with the asserts there, and only the examples do not. CoopHumanEval: from writing a solution by the
text for every row, and looking at each assert that it fails. MBPP: every reference passes; these are the rows
whose asserts, when all rows were read, contradicted the text or wanted something that it does not say. Asserts
count from 1. `docs/data.md` says more.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from llm_decpomdp.interfaces import Task, TaskSet
from llm_decpomdp.utils.hub import hub_reachable
from llm_decpomdp.utils.text import read_utf8, warn
from llm_decpomdp.validation import unknown

DATA_FOLDER = "LLM_DECPOMDP_DATA"
SOURCES = ("auto", "hub", "bundled")
PACKAGE = "package"
"""Source of bundled rows that are the real ones."""

AT_A_COMMIT = "hub@"
"""Prefix of a commit or tag: the hub's data as of then."""

A_FILE = "the path of an existing JSONL, JSON or Parquet file"

OF_A_FILE = ("train", "test", "all")
"""Splits that every file has: the whole of it, but for rows that name another split themselves."""

SHOWN_ROWS = 10
"""Number of bad rows that an error names."""

ENDINGS = (".jsonl", ".json", ".parquet")

GZIP = b"\x1f\x8b"
"""First bytes of a compressed file."""

Row = Mapping[str, Any]

logger = logging.getLogger(__name__)

Numbered = list[tuple[int, Row]]
"""Rows with the lines of the file that they stand in, from 1."""


class BadRow(ValueError):
    """Row that cannot be a task; the text names the field."""


@dataclass(frozen=True)
class Remark:
    """Observation of an audit about a task or a program."""

    kind: str
    task_id: str
    program: str
    """Name of the program that showed it; empty if the row's text did."""
    text: str
    fault: bool = False
    """True if rewards are wrong, can be forged, or are a matter of chance while this stays as it is."""
    explained: str = ""
    """Known issue of the row, where it is recorded as such."""


REFERENCE = "reference"
"""Name of the data's own completions in remarks."""

IDLE = {
    "raises": "    raise Exception('nothing here')\n    return None\n",
    "returns None": "    return None\n",
}
"""Bodies of functions that do no work, by their behavior."""


def idle_functions(names: Sequence[str]) -> dict[str, str]:
    """Return code in which functions do no work, by a description; tests that pass for it check nothing."""
    return {
        f"code that {behavior}": "\n".join(f"def {name}(*_, **__):\n{body}" for name in names)
        for behavior, body in IDLE.items()
    }


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


@dataclass(frozen=True)
class Dataset:
    """Data set and all of its sources."""

    name: str
    hub: str
    """Repository on the Hugging Face hub, or a local folder in its format."""
    filename: str
    """Name of its local copy in the folder that `LLM_DECPOMDP_DATA` names."""
    bundled: Callable[[], list[Row]]
    """Function that reads the rows that come with this library or with a package that it requires."""
    to_task: Callable[[int, Row], Task]
    """Function that makes a task of a row; raises `BadRow`."""
    stand_in: bool
    """True if the bundled rows are ours, in place of the real ones."""
    splits: tuple[str, ...] = ("test",)
    revision: str = "main"
    config: str | None = None
    """One of the repository's configurations."""
    find_split: Callable[[Row], str | None] | None = None
    """Function that gives the split of a row of a file with several, None for all; needed for several splits."""
    origin: str = PACKAGE
    """Source of the bundled rows, if they are no stand-ins."""

    def available_splits(self, source: str | os.PathLike[str]) -> tuple[str, ...]:
        """Return a source's splits: the data set's, `all` where there are several, and those of every file."""
        names = (*self.splits, "all") if len(self.splits) > 1 else self.splits
        return tuple(dict.fromkeys([*names, *OF_A_FILE])) if is_path(source) else names


@dataclass(frozen=True)
class SplitRows:
    """Rows of a split, and their source."""

    rows: Numbered
    source: str
    """Name as of `TaskSet.source`."""
    revision: str = ""
    """Commit of the hub."""


def is_path(source: str | os.PathLike[str]) -> bool:
    """Return True if a source is the path of a file, and none of the names of sources."""
    return str(source) not in (*SOURCES, PACKAGE) and not str(source).startswith(AT_A_COMMIT)


def load(
    dataset: Dataset,
    split: str,
    source: str | os.PathLike[str],
    exclude_known_issues: bool = False,
) -> TaskSet:
    """Load one split, sliced.

    Args:
        dataset: The data set.
        split: A split's name, with a slice if wanted: `test`, `test[16:]`, `test[:50%]`.
        source: `auto`, `hub`, `bundled`, the path of a JSONL, JSON or Parquet file, or `hub@COMMIT`.
        exclude_known_issues: Whether to leave out tasks that are known to be wrong, after slicing.

    Raises:
        ValueError: If the split, the source or a row is wrong, or no task is left; bad rows are named by line
            and field.
        ConnectionError: If `source` is `hub` and the hub cannot be reached.
    """
    name, begin, end = parse_split(split, dataset.available_splits(source))
    found = _find(dataset, name, source)
    # All rows are read before slicing, so that `index` is the row in the whole set.
    tasks = _tasks(dataset, found)
    sliced = tasks[slice(*(_position(bound, len(tasks), split) for bound in (begin, end)))]
    if not sliced:
        whole = "train, test or all" if is_path(source) else name
        remedy = f"{whole} takes all of them, {name}[:50%] the first half"
        if not tasks:
            remedy = (
                "all takes those of every split" if dataset.find_split else "the file holds none"
            )
        raise ValueError(
            f"split {split!r} of {dataset.name} ({found.source}) is empty: it has {len(tasks)} rows; {remedy}"
        )
    # After slicing: `test[:50%]` are the same rows with and without the exclusion.
    excluded = {t.task_id: t.known_issue for t in sliced if t.known_issue and exclude_known_issues}
    tasks = tuple(task for task in sliced if task.task_id not in excluded)
    if not tasks:
        raise ValueError(
            f"split {split!r} of {found.source} holds nothing but tasks with known issues"
        )
    if is_path(source):
        _warn_remarks(tasks)
    stand_in = found.source == "bundled"
    return TaskSet(tasks, dataset.name, found.source, split, found.revision, stand_in, excluded)


def parse_split(split: str, valid: Iterable[str]) -> tuple[str, str | None, str | None]:
    """Return the name and the two bounds of a split such as `test[16:]`.

    Percentages mean what they mean in the `datasets` library, as far as it gives them a meaning.

    Raises:
        ValueError: If the text has another form, the split does not exist, a percentage is over 100, or one bound
            is a percentage and the other a number of rows.
    """
    match = re.fullmatch(r"(\w+)(?:\[(-?\d+%?)?:(-?\d+%?)?\])?", str(split))
    if match is None:
        raise ValueError(f"split must look like 'test', 'test[16:]' or 'test[:50%]', got {split!r}")
    if match[1] not in valid:
        raise ValueError(unknown("split", match[1], valid))
    bounds = [bound for bound in (match[2], match[3]) if bound is not None]
    shares = [bound for bound in bounds if bound.endswith("%")]
    if shares and len(shares) < len(bounds):
        raise ValueError(f"both bounds of a split must be rows, or both percentages, got {split!r}")
    for share in shares:
        if abs(int(share[:-1])) > 100:
            raise ValueError(
                f"a percentage of a split must lie in [-100%, 100%], got {share} in {split!r}"
            )
    return match[1], match[2], match[3]


def _position(bound: str | None, length: int, split: str) -> int | None:
    """Return the row of a bound, rounded to the closest one; negative ones count from the end."""
    if bound is None or not bound.endswith("%"):
        return None if bound is None else int(bound)
    percent = int(bound[:-1])
    rows = round(percent * length / 100)
    if percent < 0 and rows == 0:  # position 0 would be the first row instead of the end
        raise ValueError(
            f"split {split!r}: {-percent}% of {length} rows is less than half a row: take a larger percentage, or "
            "a number of rows, such as -1"
        )
    return rows


def _find(dataset: Dataset, split: str, source: str | os.PathLike[str]) -> SplitRows:
    """Return the rows of a split, where the source has them."""
    if is_path(source):
        return _file_rows(dataset, split, existing(source))
    if source in ("bundled", PACKAGE):
        return _package_rows(dataset, split)
    if source != "auto":
        return _hub_rows(dataset, split, str(source))
    folder = os.environ.get(DATA_FOLDER)
    if folder:
        local = Path(os.path.abspath(folder)) / dataset.filename
        if local.is_file():
            return _file_rows(dataset, split, local)
        logger.warning("%s=%s has no %s", DATA_FOLDER, folder, dataset.filename)
    # The package has the real rows (HumanEval): the hub would give the same ones, later.
    if not dataset.stand_in:
        return _package_rows(dataset, split)
    if hub_has(dataset.hub):
        try:
            return _hub_rows(dataset, split, "hub", reached=True)
        except (OSError, ValueError) as error:  # it answered, and then gave no data
            logger.warning("the hub does not give %s: %s", dataset.hub, error)
    _warn_fallback(dataset.name)
    return _package_rows(dataset, split)


def existing(source: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a file of problems.

    Raises:
        ValueError: If there is none; the text names where it was looked for, and the nearest file there.
    """
    path = Path(os.path.abspath(Path(source).expanduser()))
    if path.is_file():
        return path
    if not path.is_dir() and path.suffix not in ENDINGS and len(Path(source).parts) < 2:
        raise ValueError(
            f"{unknown('source', str(source), SOURCES)}, or {A_FILE}; there is no {path}"
        )
    files = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    files = [name for name in files if name.endswith(ENDINGS)]
    near = get_close_matches(path.name, files, n=1, cutoff=0.75)
    hint = f"; did you mean {str(path.with_name(near[0]))!r}?" if near else "."
    problem = f"{path} is a folder" if path.is_dir() else f"there is no file {path}"
    raise ValueError(f"{problem}{hint} A source is {', '.join(SOURCES)}, or {A_FILE}")


def bundled_rows(name: str) -> list[Row]:
    """Return the rows of a file of this package, such as `mbpp.jsonl`."""
    return read_rows(Path(__file__).parents[1] / "data" / name)


def _file_rows(dataset: Dataset, split: str, path: Path) -> SplitRows:
    return SplitRows(_select_split(dataset, split, read_rows(path)), str(path))


def _package_rows(dataset: Dataset, split: str) -> SplitRows:
    source = "bundled" if dataset.stand_in else dataset.origin
    return SplitRows(_select_split(dataset, split, dataset.bundled()), source)


def _hub_rows(dataset: Dataset, split: str, source: str, reached: bool = False) -> SplitRows:
    if not reached and not hub_has(dataset.hub):
        raise ConnectionError(
            f"source={source!r}: the Hugging Face hub cannot be reached, so {dataset.hub!r} cannot be loaded; "
            f"use source='auto' or 'bundled', or set {DATA_FOLDER} to a folder with {dataset.filename}"
        )
    parts = "+".join(dataset.splits) if split == "all" else split
    revision = source.removeprefix(AT_A_COMMIT) if source != "hub" else dataset.revision
    rows, commit = hub_rows(dataset.hub, dataset.config, parts, revision)
    return SplitRows(list(enumerate(rows, 1)), "hub", revision=commit)


def _select_split(dataset: Dataset, split: str, rows: Iterable[Row]) -> Numbered:
    """Return the rows of a split among those of all; what is no row is left for `_tasks` to refuse."""
    numbered = list(enumerate(rows, 1))
    if dataset.find_split is None or split == "all":
        return numbered
    belongs = (None, split)
    return [
        (line, row)
        for line, row in numbered
        if not isinstance(row, Mapping) or dataset.find_split(row) in belongs
    ]


_warned: set[str] = set()


def _warn_fallback(name: str) -> None:
    if name in _warned:
        return
    _warned.add(name)
    warn(
        f"the Hugging Face hub cannot be reached: {name} uses the bundled stand-in problems, not the "
        f"benchmark's own. Set {DATA_FOLDER} to a folder with local copies, or source='hub' to insist."
    )


_remarked: set[tuple[str, str]] = set()


def _warn_remarks(tasks: Iterable[Task]) -> None:
    """Warn of each remark on a row of a user's file, once in a process."""
    for task in tasks:
        for remark in task.remarks:
            if (task.task_id, remark) not in _remarked:
                _remarked.add((task.task_id, remark))
                logger.warning(
                    "task %r: a correct program may fail here although it passes in plain Python: %s; see "
                    "docs/data.md",
                    task.task_id,
                    remark,
                )


def _tasks(dataset: Dataset, found: SplitRows) -> tuple[Task, ...]:
    tasks: list[Task] = []
    names: set[str] = set()
    bad: dict[int, str] = {}
    for index, (line, row) in enumerate(found.rows):
        try:
            task = dataset.to_task(index, require_row(row))
            if task.task_id in names:
                raise BadRow(f"field 'task_id' repeats {task.task_id!r}")
        except BadRow as error:
            bad[line] = str(error)
            continue
        names.add(task.task_id)
        tasks.append(task)
    refuse(found.source, bad, len(found.rows))
    return tuple(tasks)


# Rows of the data sets whose tests no program that follows the whole text can pass, with the reason


KNOWN_ISSUES: dict[str, str] = {
    row["task_id"]: row["issue"] for row in bundled_rows("known_issues.jsonl")
}
