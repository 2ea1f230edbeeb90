"""Where problems come from: a file, a folder of local copies, the Hugging Face hub, or this package.

`source="auto"` looks in this order: the folder that `LLM_DECPOMDP_DATA` names, the installed package that
carries the real data (HumanEval), the hub, and last the bundled stand-ins, with a warning. Nothing here waits
for a network that isn't there: the hub gets `PROBE_SECONDS` to answer.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import re
import threading
import urllib.request
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_decpomdp.naming import unknown
from llm_decpomdp.tasks import Task, TaskSet

DATA_FOLDER = "LLM_DECPOMDP_DATA"
PROBE_SECONDS = 2.5
SOURCES = ("auto", "hub", "bundled")

logger = logging.getLogger(__name__)

Row = Mapping[str, Any]
Numbered = list[tuple[int, Row]]
"""Rows with the lines of the file that they stand in, from 1."""


class BadRow(ValueError):
    """A row that cannot be a task; the text names the field."""


@dataclass(frozen=True)
class Dataset:
    """One data set and all the places where it may be found."""

    name: str
    hub: str
    """Repository on the Hugging Face hub, or a local folder in its format."""
    filename: str
    """Name of its local copy in the folder that `LLM_DECPOMDP_DATA` names."""
    bundled: Callable[[], list[Row]]
    """The rows that come with this library or with a package that it requires."""
    to_task: Callable[[int, Row], Task]
    """Makes a task of a row; raises `BadRow`."""
    stand_in: bool
    """Whether the bundled rows are ours, in place of the real ones."""
    splits: tuple[str, ...] = ("test",)
    revision: str = "main"
    config: str | None = None
    """Which of the repository's configurations."""
    split_of: Callable[[Row], str | None] | None = None
    """The split that a row of a file with all of them belongs to, None for all; needed for several splits."""

    @property
    def split_names(self) -> tuple[str, ...]:
        """The splits, and `all` where there are several."""
        return (*self.splits, "all") if len(self.splits) > 1 else self.splits


def load(
    dataset: Dataset,
    split: str,
    source: str | os.PathLike[str],
    exclude_known_issues: bool = False,
) -> TaskSet:
    """Load one split, sliced.

    Args:
        dataset: What to load.
        split: A split's name, with a slice if wanted: `test`, `test[16:]`, `test[:50%]`.
        source: `auto`, `hub`, `bundled`, or the path of a JSONL, JSON or Parquet file.
        exclude_known_issues: Whether to leave out tasks that are known to be wrong, after slicing.

    Raises:
        ValueError: If the split, the source or a row is wrong, or no task is left; a bad row is named by line
            and field.
        ConnectionError: If `source` is `hub` and the hub cannot be reached.
    """
    name, begin, end = parse_split(split, dataset.split_names)
    rows, found, stand_in = _rows(dataset, name, source)
    tasks = _tasks(dataset, rows, found)
    chosen = tasks[slice(_position(begin, len(tasks)), _position(end, len(tasks)))]
    if not chosen:
        raise ValueError(f"split {split!r} of {found} is empty: it has {len(tasks)} rows")
    excluded = {t.task_id: t.known_issue for t in chosen if t.known_issue and exclude_known_issues}
    left = tuple(task for task in chosen if task.task_id not in excluded)
    if not left:
        raise ValueError(f"split {split!r} of {found} holds nothing but tasks with known issues")
    revision = dataset.revision if found == "hub" else ""
    return TaskSet(left, dataset.name, found, split, revision, stand_in, excluded)


def parse_split(split: str, valid: Iterable[str]) -> tuple[str, str | None, str | None]:
    """The name and the two bounds of a split such as `test[16:]`.

    Raises:
        ValueError: If the text has another form or the split does not exist.
    """
    match = re.fullmatch(r"(\w+)(?:\[(-?\d+%?)?:(-?\d+%?)?\])?", str(split))
    if match is None:
        raise ValueError(f"split must look like 'test', 'test[16:]' or 'test[:50%]', got {split!r}")
    if match[1] not in valid:
        raise ValueError(unknown("split", match[1], valid))
    return match[1], match[2], match[3]


def _position(bound: str | None, length: int) -> int | None:
    if bound is None:
        return None
    return round(int(bound[:-1]) / 100 * length) if bound.endswith("%") else int(bound)


def _rows(
    dataset: Dataset, split: str, source: str | os.PathLike[str]
) -> tuple[Numbered, str, bool]:
    """The rows of a split, where they were found, and whether they stand in for others."""
    if source == "hub":
        return _hub_rows(dataset, split), "hub", False
    if source == "bundled":
        return _of_package(dataset, split)
    if source != "auto":
        path = Path(source)
        if not path.is_file():
            hint = unknown("source", str(source), SOURCES)
            raise ValueError(f"{hint}, or the path of an existing JSONL, JSON or Parquet file")
        return _of_split(dataset, split, read_rows(path)), str(path), False
    folder = os.environ.get(DATA_FOLDER)
    if folder:
        local = Path(folder) / dataset.filename
        if local.is_file():
            return _of_split(dataset, split, read_rows(local)), str(local), False
        logger.warning("%s=%s has no %s", DATA_FOLDER, folder, dataset.filename)
    if not dataset.stand_in:
        return _of_package(dataset, split)
    if hub_has(dataset):
        try:
            return _hub_rows(dataset, split), "hub", False
        except (OSError, ValueError) as error:  # it answered, and then gave no data
            logger.warning("the hub does not give %s: %s", dataset.hub, error)
    _warn_of_stand_in(dataset.name)
    return _of_package(dataset, split)


def bundled_rows(name: str) -> list[Row]:
    """The rows of a file of this package, such as `mbpp.jsonl`."""
    return read_rows(Path(__file__).with_name("data") / name)


def _of_package(dataset: Dataset, split: str) -> tuple[Numbered, str, bool]:
    found = "bundled" if dataset.stand_in else "package"
    return _of_split(dataset, split, dataset.bundled()), found, dataset.stand_in


def _of_split(dataset: Dataset, split: str, rows: Iterable[Row]) -> Numbered:
    """The rows of a split among those of all; what is no row is left for `_tasks` to refuse."""
    numbered = list(enumerate(rows, 1))
    if dataset.split_of is None or split == "all":
        return numbered
    belongs = (None, split)
    return [
        (line, row)
        for line, row in numbered
        if not isinstance(row, Mapping) or dataset.split_of(row) in belongs
    ]


_warned: set[str] = set()


def _warn_of_stand_in(name: str) -> None:
    if name in _warned:
        return
    _warned.add(name)
    warnings.warn(
        f"the Hugging Face hub cannot be reached: {name} uses the bundled stand-in problems, not the "
        f"benchmark's own. Set {DATA_FOLDER} to a folder with local copies, or source='hub' to insist.",
        stacklevel=2,
    )


# Files


def read_rows(path: Path) -> list[Row]:
    """The rows of a JSONL, JSON (a list of objects) or Parquet file.

    Raises:
        ValueError: If the file has another ending or a line is not a JSON object.
    """
    if path.suffix == ".parquet":
        import pyarrow.parquet

        rows: list[Row] = pyarrow.parquet.read_table(path).to_pylist()
        return rows
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        entries = _from_json(str(path), text)
        if not isinstance(entries, list):
            raise ValueError(f"{path} must hold a list of objects, got {type(entries).__name__}")
        return entries
    if path.suffix != ".jsonl":
        raise ValueError(f"{path} must end in .jsonl, .json or .parquet")
    # Not `splitlines`: JSON texts may hold other line separators of Unicode. Blank lines stand at the end only.
    lines = text.rstrip().split("\n") if text.strip() else []
    return [_from_json(f"{path}, line {number}", line) for number, line in enumerate(lines, 1)]


def _from_json(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not valid JSON: {error}") from None


def text_field(row: Row, name: str) -> str:
    """A row's field, which must be a text that is not empty.

    Raises:
        BadRow: If it isn't.
    """
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BadRow(f"field {name!r} must be a text that is not empty, got {value!r}")
    return value


def _tasks(dataset: Dataset, rows: Numbered, found: str) -> tuple[Task, ...]:
    tasks: list[Task] = []
    seen: set[str] = set()
    for index, (line, row) in enumerate(rows):
        try:
            if not isinstance(row, Mapping):
                raise BadRow(f"a row must be an object, got {type(row).__name__}")
            task = dataset.to_task(index, row)
            if task.task_id in seen:
                raise BadRow(f"field 'task_id' repeats {task.task_id!r}")
        except BadRow as error:
            raise ValueError(f"{found}, line {line}: {error}") from None
        seen.add(task.task_id)
        tasks.append(task)
    return tuple(tasks)


# The hub


def hub_has(dataset: Dataset) -> bool:
    """Whether the hub answers for this data set now, or it is a local folder; at most `PROBE_SECONDS`."""
    return Path(dataset.hub).is_dir() or hub_reachable(f"/api/datasets/{dataset.hub}")


def hub_reachable(path: str = "") -> bool:
    """Whether the hub gives `path` within `PROBE_SECONDS`; no when an environment variable says offline."""
    if any(
        os.environ.get(name, "0") not in ("", "0")
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
    ):
        return False
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    answered = threading.Event()

    def probe() -> None:
        try:
            request = urllib.request.Request(endpoint + path)
            with urllib.request.urlopen(request, timeout=PROBE_SECONDS):
                answered.set()
        except (OSError, ValueError, http.client.HTTPException):
            logger.debug("no answer from %s", endpoint)
        finished.set()

    finished = threading.Event()
    # A thread, because looking up a name may outlast any time limit that a request is given.
    threading.Thread(target=probe, daemon=True).start()
    finished.wait(PROBE_SECONDS)
    return answered.is_set()


def _hub_rows(dataset: Dataset, split: str) -> Numbered:
    if not hub_has(dataset):
        raise ConnectionError(
            f"source='hub': the Hugging Face hub cannot be reached, so {dataset.hub!r} cannot be loaded; "
            f"use source='auto' or 'bundled', or set {DATA_FOLDER} to a folder with {dataset.filename}"
        )
    from datasets import load_dataset

    local = Path(dataset.hub).is_dir()
    revision = None if local else dataset.revision
    split = "+".join(dataset.splits) if split == "all" else split
    rows = load_dataset(dataset.hub, dataset.config, split=split, revision=revision)
    return list(enumerate(rows, 1))
