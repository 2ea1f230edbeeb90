"""Loading of data sets from a file, a folder of local copies, the Hugging Face hub, or this package.

`source="auto"` tries in this order: the folder in `LLM_DECPOMDP_DATA`, an installed package with the real data
(HumanEval), the hub, and the bundled stand-ins, with a warning. The hub has
`llm_decpomdp.utils.hub.PROBE_SECONDS` to answer, so no network is no long wait.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

from llm_decpomdp.envs.datasets.rows import BadRow, Row, read_rows, refuse, require_row
from llm_decpomdp.interfaces import Task, TaskSet
from llm_decpomdp.utils.hub import hub_reachable, import_datasets
from llm_decpomdp.utils.text import warn, warn_once
from llm_decpomdp.validation import unknown

DATA_FOLDER = "LLM_DECPOMDP_DATA"
SOURCES = ("auto", "hub", "bundled")
PACKAGE = "package"
"""Source of bundled rows that are the real ones."""

AT_A_COMMIT = "hub@"
"""Prefix of a commit, tag or branch of the hub's data."""

A_FILE = "the path of an existing JSONL, JSON or Parquet file"

OF_A_FILE = ("train", "test", "all")
"""Splits of every file. Each has all rows except those whose own field names another split."""


ENDINGS = (".jsonl", ".json", ".parquet")


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Dataset:
    """A data set and all of its sources."""

    name: str
    hub: str
    """Repository on the Hugging Face hub, or a local folder in its format."""
    filename: str
    """Name of its local copy in the folder `LLM_DECPOMDP_DATA`."""
    bundled: Callable[[], list[Row]]
    """Reads the rows of this library, or of a package that it requires."""
    to_task: Callable[[int, Row], Task]
    """Makes a task of a row; raises `BadRow`."""
    stand_in: bool
    """True if the bundled rows are substitutes for the real ones."""
    splits: tuple[str, ...] = ("test",)
    config: str | None = None
    """A configuration of the repository."""
    find_split: Callable[[Row], str | None] | None = None
    """Returns the split of a row, None for all splits; required if a file has several splits."""
    origin: str = PACKAGE
    """Source of the bundled rows if they are the real ones."""

    def available_splits(self, source: str | os.PathLike[str]) -> tuple[str, ...]:
        """Return a source's splits: the data set's, `all` if there are several, and those of every file."""
        names = (*self.splits, "all") if len(self.splits) > 1 else self.splits
        return tuple(dict.fromkeys([*names, *OF_A_FILE])) if is_path(source) else names

    @cached_property
    def bundled_splits(self) -> dict[str, _Split]:
        """The splits of the bundled rows that were read: they never change."""
        return {}


@dataclass(frozen=True)
class _Split:
    """Rows of a split, each with its line in the source, from 1."""

    dataset: Dataset
    rows: list[tuple[int, Row]]
    source: str
    """Name as in `TaskSet.source`."""
    revision: str = ""
    """Commit of the hub."""

    @property
    def place(self) -> str:
        """Source and commit."""
        return f"{self.source} {self.revision}".strip()

    @cached_property
    def tasks(self) -> list[Task]:
        """The tasks of the rows."""
        tasks: dict[str, Task] = {}
        bad: dict[int, str] = {}
        for index, (line, row) in enumerate(self.rows):
            try:
                task = self.dataset.to_task(index, require_row(row))
                if task.task_id in tasks:
                    raise BadRow(f"field 'task_id' repeats {task.task_id!r}")
                tasks[task.task_id] = task
            except BadRow as error:
                bad[line] = str(error)
        refuse(self.source, bad, len(self.rows))
        return list(tasks.values())


def load(
    dataset: Dataset, split: str, source: str | os.PathLike[str], exclude_known_issues: bool = False
) -> TaskSet:
    """Load one split, optionally sliced.

    Args:
        dataset: The data set.
        split: A split's name, with an optional slice: `test`, `test[16:]`, `test[:50%]`; or several of them joined
            by `+`, as in the `datasets` library: `train+validation`.
        source: `auto`, `hub`, `bundled`, the path of a JSONL, JSON or Parquet file, or `hub@COMMIT`.
        exclude_known_issues: Whether to leave out tasks with known errors, after slicing.

    Raises:
        ValueError: If the split, the source or a row is wrong, or no task is left; names bad rows by line and
            field.
        ConnectionError: If `source` is `hub` and the hub cannot be reached.
    """
    parts = parse_split(split, dataset.available_splits(source))
    rows = {name: _find(dataset, name, source) for name, *_ in parts}
    origin, *others = rows.values()
    for other in others:
        if other.place != origin.place:
            raise ConnectionError(
                f"the parts of split {split!r} come from different places, {origin.place} and {other.place}: try "
                f"again, or set {DATA_FOLDER} to a folder with {dataset.filename}"
            )
    sliced = [task for part in parts for task in _slice(rows[part[0]], *part, is_path(source))]
    repeated = [task_id for task_id, n in Counter(t.task_id for t in sliced).items() if n > 1]
    if repeated:
        raise ValueError(f"the parts of split {split!r} overlap: {repeated[0]!r} is in two of them")
    # After slicing, so that `test[:50%]` has the same rows with and without the exclusion.
    excluded = {t.task_id: t.known_issue for t in sliced if t.known_issue and exclude_known_issues}
    tasks = [task for task in sliced if task.task_id not in excluded]
    if not tasks:
        raise ValueError(
            f"split {split!r} of {origin.source} holds nothing but tasks with known issues"
        )
    if is_path(source):
        _warn_remarks(tasks)
    stand_in = dataset.stand_in and origin.source == "bundled"
    return TaskSet(
        tuple(tasks),
        dataset.name,
        origin.source,
        split,
        origin.revision,
        stand_in,
        excluded,
    )


def is_path(source: str | os.PathLike[str]) -> bool:
    """Return True if a source is the path of a file, not the name of another source."""
    return str(source) not in (*SOURCES, PACKAGE) and not str(source).startswith(AT_A_COMMIT)


def parse_split(split: str, valid: Iterable[str]) -> list[tuple[str, str | None, str | None]]:
    """Return the name and the two bounds of each part of a split such as `train+test[16:]`.

    Percentages are those of the `datasets` library where it accepts them.

    Raises:
        ValueError: If the text has another form, a split does not exist, a percentage is over 100, or one bound
            is a percentage and the other a number of rows.
    """
    return [_parse_part(part.strip(), str(split), valid) for part in str(split).split("+")]


def _parse_part(part: str, split: str, valid: Iterable[str]) -> tuple[str, str | None, str | None]:
    match = re.fullmatch(r"(\w+)(?:\[(-?\d+%?)?:(-?\d+%?)?\])?", part)
    if match is None:
        raise ValueError(
            f"split must look like 'test', 'test[16:]', 'test[:50%]' or 'train+test[16:]', got {split!r}"
        )
    name, begin, end = match.groups()
    if name not in valid:
        raise ValueError(unknown("split", name, valid))
    bounds = [bound for bound in (begin, end) if bound is not None]
    shares = [bound for bound in bounds if bound.endswith("%")]
    if shares and len(shares) < len(bounds):
        raise ValueError(f"both bounds of a split must be rows, or both percentages, got {split!r}")
    for share in shares:
        if abs(int(share[:-1])) > 100:
            raise ValueError(
                f"a percentage of a split must lie in [-100%, 100%], got {share} in {split!r}"
            )
    return name, begin, end


def _slice(
    rows: _Split, name: str, begin: str | None, end: str | None, own_file: bool
) -> list[Task]:
    """Return the tasks between two bounds of a split.

    Raises:
        ValueError: If a row is bad, or there is no such task.
    """
    # All rows are parsed before slicing, so that `index` is the position in the whole set.
    tasks = rows.tasks
    part = name if begin is end is None else f"{name}[{begin or ''}:{end or ''}]"
    sliced = tasks[slice(*(_position(bound, len(tasks), part) for bound in (begin, end)))]
    if sliced:
        return sliced
    if tasks:
        whole = "train, test or all" if own_file else name
        remedy = f"{whole} takes all of them, {name}[:50%] the first half"
    else:
        remedy = (
            "all takes those of every split" if rows.dataset.find_split else "the file holds none"
        )
    raise ValueError(
        f"split {part!r} of {rows.dataset.name} ({rows.source}) is empty: it has {len(tasks)} rows; {remedy}"
    )


def _position(bound: str | None, length: int, split: str) -> int | None:
    """Return the row of a bound, percentages rounded; negative bounds count from the end."""
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


def _find(dataset: Dataset, split: str, source: str | os.PathLike[str]) -> _Split:
    if is_path(source):
        return _file_rows(dataset, split, existing(source))
    if source not in ("auto", "bundled", PACKAGE):
        if not hub_has(dataset.hub):
            raise ConnectionError(
                f"source={source!r}: the Hugging Face hub cannot be reached, so {dataset.hub!r} cannot be loaded; "
                f"use source='auto' or 'bundled', or set {DATA_FOLDER} to a folder with {dataset.filename}"
            )
        return _hub_rows(dataset, split, str(source))
    if source == "auto":
        if folder := os.environ.get(DATA_FOLDER):
            local = Path(os.path.abspath(folder)) / dataset.filename
            if local.is_file():
                return _file_rows(dataset, split, local)
            warn_once(logger, "%s=%s has no %s", DATA_FOLDER, folder, dataset.filename)
        # If the package has the real rows (HumanEval), the hub would only be slower.
        if dataset.stand_in:
            if hub_has(dataset.hub):
                try:
                    return _hub_rows(dataset, split, "hub")
                except (OSError, ValueError) as error:  # the probe succeeded, the download did not
                    warn_once(logger, "the hub does not give %s: %s", dataset.hub, error)
            _warn_fallback(dataset.name)
    if split not in dataset.bundled_splits:
        rows = _select_split(dataset, split, dataset.bundled())
        origin = "bundled" if dataset.stand_in else dataset.origin
        dataset.bundled_splits[split] = _Split(dataset, rows, origin)
    return dataset.bundled_splits[split]


def _file_rows(dataset: Dataset, split: str, path: Path) -> _Split:
    return _Split(dataset, _select_split(dataset, split, read_rows(path)), str(path))


def _hub_rows(dataset: Dataset, split: str, source: str) -> _Split:
    parts = "+".join(dataset.splits) if split == "all" else split
    revision = source.removeprefix(AT_A_COMMIT) if source != "hub" else "main"
    rows, commit = hub_rows(dataset.hub, dataset.config, parts, revision)
    return _Split(dataset, list(enumerate(rows, 1)), "hub", commit)


def _select_split(dataset: Dataset, split: str, rows: Iterable[Row]) -> list[tuple[int, Row]]:
    """Number all rows and return those of a split; values that are no rows stay, for `_Split.tasks` to report."""
    find_split = dataset.find_split
    return [
        (line, row)
        for line, row in enumerate(rows, 1)
        if find_split is None
        or split == "all"
        or not isinstance(row, Mapping)
        or find_split(row) in (None, split)
    ]


_warned: set[str] = set()


def _warn_fallback(name: str) -> None:
    """Warn, once in a process, that a data set has bundled problems instead of its own."""
    if name not in _warned:
        _warned.add(name)
        warn(
            f"the Hugging Face hub cannot be reached: {name} uses the bundled stand-in problems, not the "
            f"benchmark's own. Set {DATA_FOLDER} to a folder with local copies, or source='hub' to insist."
        )


def _warn_remarks(tasks: Iterable[Task]) -> None:
    for task in tasks:
        for remark in task.remarks:
            warn_once(
                logger,
                "task %r: a correct program may fail here although it passes in plain Python: %s; see "
                "docs/data.md",
                task.task_id,
                remark,
            )


def existing(source: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a file of problems.

    Raises:
        ValueError: If there is none; names the full path, and the nearest file in its folder.
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


def hub_has(repository: str) -> bool:
    """Return True if the hub answers for this data set now, or it is a local folder."""
    return Path(repository).is_dir() or hub_reachable(f"/api/datasets/{repository}")


def hub_rows(
    repository: str, config: str | None, split: str, revision: str
) -> tuple[list[Row], str]:
    """Return the rows of a data set on the hub, and their commit.

    Args:
        repository: Its name on the hub, or a local folder in the hub's format, which has no commits.
        config: A configuration of the data set.
        split: A split, or several joined by `+`.
        revision: A commit, tag or branch.

    Raises:
        OSError: If the download fails.
        ValueError: If there is no such configuration or split.
    """
    load_dataset = import_datasets().load_dataset
    if Path(repository).is_dir():
        return list(load_dataset(repository, config, split=split)), ""
    from huggingface_hub import HfApi

    # A branch may move between two requests: look its commit up once, so that rows and recorded commit agree.
    commit = str(HfApi().dataset_info(repository, revision=revision).sha)
    return list(load_dataset(repository, config, split=split, revision=commit)), commit
