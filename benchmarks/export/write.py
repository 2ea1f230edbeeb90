"""Episodes as a data set: Parquet, JSON Lines, or a folder that `datasets.load_dataset` loads."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from llm_decpomdp.benchmarks.config.errors import ConfigError, writing
from llm_decpomdp.benchmarks.export.contents import PAIR_KINDS, PairChoice, pairs, trajectories
from llm_decpomdp.benchmarks.export.source import PHASES, Content, EpisodeSource, ExportColumn
from llm_decpomdp.benchmarks.runs.results import data_sets
from llm_decpomdp.validation import unknown

NO_PAIRS = (
    ": no group has joint samples whose rewards differ by --min-margin or more. Only training has groups of "
    "several samples"
)

INSPECT = "inspect"
"""Format of evaluations as logs of Inspect."""

FORMATS = ("parquet", "jsonl", "hub-folder", INSPECT)


@dataclass(frozen=True)
class Export:
    """The result of an export."""

    folder: Path
    rows: Mapping[str, int]
    """Number of rows by split."""


def export(
    run: Path,
    to: str = "parquet",
    output: Path | None = None,
    *,
    as_pairs: bool = False,
    min_margin: float = 0.0,
    pair_kind: str = "joint",
    pairs_per_group: int = 1,
) -> Export:
    """Write the episodes of a run or an evaluation as a data set. After an error no part of it is left.

    Args:
        run: Its folder.
        to: One of `FORMATS`.
        output: A new folder; by default `trajectories-<format>` or `pairs-<format>` in the folder of the run.
        as_pairs: Preference pairs instead of trajectories.
        min_margin: The least difference of the returns of a pair, in the units of the reward.
        pair_kind: `joint`, or `single` for pairs in which one agent alone differs.
        pairs_per_group: Most pairs of a group.

    Raises:
        ConfigError: If the folder has no episodes, the output already exists, there is nothing to write,
            or an argument is out of its range.
        RunError: If the output cannot be written.
    """
    # All arguments are checked before the episodes are read, which takes long for large runs.
    if to not in FORMATS:
        raise ConfigError(unknown("format", to, FORMATS))
    if not min_margin >= 0 or (min_margin and not as_pairs):
        raise ConfigError(f"min_margin must be at least 0, and 0 without pairs; got {min_margin}")
    choice = PairChoice(pair_kind, pairs_per_group, min_margin)
    if choice.kind not in PAIR_KINDS:
        raise ConfigError(unknown("pair_kind", choice.kind, PAIR_KINDS))
    if choice.per_group < 1 or (not as_pairs and choice != PairChoice()):
        raise ConfigError(
            f"pairs_per_group must be at least 1; it and pair_kind need pairs; got {choice}"
        )
    if to == INSPECT:
        if as_pairs:
            raise ConfigError("logs of Inspect hold evaluations: leave out --pairs")
        return _export_logs(run, output or run / "inspect-logs")
    source = EpisodeSource(run)
    content = pairs(source, choice) if as_pairs else trajectories(source)
    folder = output or run / f"{content.name}-{to}"
    if folder.exists():
        raise ConfigError(f"{folder} already exists: choose another folder with --output")
    with ExitStack() as stack:
        stack.enter_context(writing(folder))
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Written beside the target and renamed at the end, so that a stopped export leaves nothing.
        place = stack.enter_context(
            tempfile.TemporaryDirectory(dir=folder.parent, prefix=".export-")
        )
        data_set = Path(place) / "made"
        (data_set / "data" if to == "hub-folder" else data_set).mkdir(parents=True)
        counts = {phase: _write(content, phase, to, data_set, Path(place)) for phase in PHASES}
        rows = {phase: count for phase, count in counts.items() if count}
        if not rows:
            raise ConfigError(
                f"{run} has no {content.name} to export{NO_PAIRS if as_pairs else ''}"
            )
        if to == "hub-folder":
            (data_set / "README.md").write_text(_card(source, content, rows), encoding="utf-8")
        # A rename inside one folder is atomic.
        data_set.rename(folder)
    return Export(folder, rows)


def _export_logs(run: Path, folder: Path) -> Export:
    """Write the evaluations as logs of Inspect; after an error no part of them is left."""
    from llm_decpomdp.benchmarks.export.inspect_logs import write_inspect_logs

    if not (run / "episodes.jsonl").is_file():
        raise ConfigError(f"{run} has no episodes.jsonl: name the folder of a run or an evaluation")
    if folder.exists():
        raise ConfigError(f"{folder} already exists: choose another folder with --output")
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".export-") as place:
            logs = Path(place) / "made"
            logs.mkdir()
            rows = write_inspect_logs(run, logs)
            logs.rename(folder)
    return Export(folder, rows)


def _write(content: Content, phase: str, to: str, folder: Path, scratch: Path) -> int:
    """Write a phase, if it has any rows, and return their number."""
    # An empty split would fail in `load_dataset`.
    if next(content.rows(phase), None) is None:
        return 0
    if to == "jsonl":
        with (folder / f"{phase}.jsonl").open("w", encoding="utf-8") as file:
            return sum(1 for row in content.rows(phase) if file.write(json.dumps(row) + "\n"))
    import datasets

    # In a log each step of a progress bar would be a line.
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    data_set = datasets.Dataset.from_generator(
        content.rows,
        # Types from the data would be null for a column without values, and differ between the
        # splits.
        features=datasets.Features({k: _feature(c) for k, c in content.columns.items()}),
        cache_dir=str(scratch / "cache"),
        gen_kwargs={"phase": phase},
        split=phase,
    )
    data_set.to_parquet((folder / "data" if to == "hub-folder" else folder) / f"{phase}.parquet")
    return int(data_set.num_rows)


def _feature(column: ExportColumn) -> Any:
    import datasets

    value = datasets.Value(column.kind.removesuffix("[]"))
    return [value] if column.kind.endswith("[]") else value


def _card(source: EpisodeSource, content: Content, rows: Mapping[str, int]) -> str:
    """Return the README.md of a data set, with the front matter that `datasets` reads."""
    title = f"{source.name}: {content.name}"
    files = [{"split": split, "path": f"data/{split}.parquet"} for split in rows]
    front = {
        "pretty_name": title,
        "tags": ["llm-decpomdp", "multi-agent", "reinforcement-learning"],
        "configs": [{"config_name": "default", "data_files": files}],
    }
    counts = ", ".join(f"{count} rows in `{split}`" for split, count in rows.items())
    lines = [
        f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n",
        f"# {title}\n",
        f"Episodes of a team of language models, written by `llm-decpomdp export`: {counts}.\n",
        "```python\nimport datasets\n\ndata = datasets.load_dataset(FOLDER)\n```\n",
        "## Origin\n",
        *_origin(source),
        "\nThe problems have the licenses of their data sets.\n",
        "## Columns\n",
        "| column | type | meaning |\n|---|---|---|",
        *(f"| `{name}` | {c.kind} | {c.meaning} |" for name, c in content.columns.items()),
    ]
    return "\n".join(lines) + "\n"


def _origin(source: EpisodeSource) -> list[str]:
    """Return the origin of the data from the manifest, as lines of a list."""
    keys = ("environment", "algorithm", "model", "seed", "created")
    lines = [f"- {key}: {source.manifest[key]}" for key in keys if key in source.manifest]
    for name, data in data_sets(source.manifest.get("data", {})):
        stand_in = ", a stand-in for the data of the benchmark"
        lines.append(
            f"- data of `{name}`: {data['name']}, {data['split']}, from {data['source']}, "
            f"fingerprint {data['fingerprint']}{stand_in if data['stand_in'] else ''}"
        )
    return lines
