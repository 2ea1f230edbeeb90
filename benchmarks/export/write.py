"""Episodes as a data set: Parquet, JSON Lines, or a folder that `datasets.load_dataset` loads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_decpomdp.benchmarks.config.errors import ConfigError, write_folder
from llm_decpomdp.benchmarks.export.contents import PAIR_KINDS, PairChoice, pairs, trajectories
from llm_decpomdp.benchmarks.export.source import PHASES, Content, EpisodeSource, ExportColumn
from llm_decpomdp.benchmarks.publish.cards import data_card
from llm_decpomdp.utils.hub import import_datasets
from llm_decpomdp.validation import unknown

NO_PAIRS = (
    ": no group has joint samples whose rewards differ by --min-margin or more. Only training has groups of "
    "several samples"
)

INSPECT = "inspect"

FORMATS = ("parquet", "jsonl", "hub-folder", INSPECT)


@dataclass(frozen=True)
class Export:
    """The result of an export."""

    folder: Path
    rows: Mapping[str, int]


def export(
    run: Path,
    to: str = "parquet",
    output: Path | None = None,
    *,
    as_pairs: bool = False,
    min_margin: float = 0.0,
    pair_kind: str = "joint",
    pairs_per_group: int = 1,
    card: bool = False,
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
        card: Whether to write a card with the sources, which a `hub-folder` always has.

    Raises:
        ConfigError: If the folder has no episodes, the output already exists, there is nothing to write,
            or an argument is out of its range.
        RunError: If the output cannot be written.
    """
    # All arguments are checked before the episodes are read, which takes long for large runs.
    if to not in FORMATS:
        raise ConfigError(unknown("format", to, FORMATS))
    choice = PairChoice(pair_kind, pairs_per_group, min_margin)
    if not as_pairs and choice != PairChoice():
        raise ConfigError(
            "--pair-kind, --pairs-per-group and --min-margin need --pairs: give that too"
        )
    if not min_margin >= 0:
        raise ConfigError(f"min_margin must be at least 0, got {min_margin}")
    if choice.kind not in PAIR_KINDS:
        raise ConfigError(unknown("pair_kind", choice.kind, PAIR_KINDS))
    if pairs_per_group < 1:
        raise ConfigError(f"pairs_per_group must be at least 1, got {pairs_per_group}")
    if to == INSPECT:
        if as_pairs or card:
            raise ConfigError(
                "logs of Inspect hold evaluations: leave out --pairs, --card and --push"
            )
        from llm_decpomdp.benchmarks.export.inspect_logs import write_inspect_logs

        if not (run / "episodes.jsonl").is_file():
            raise ConfigError(
                f"{run} has no episodes.jsonl: name the folder of a run or an evaluation"
            )
        folder = output or run / "inspect-logs"
        with write_folder(folder) as target:
            target.mkdir()
            return Export(folder, write_inspect_logs(run, target))
    source = EpisodeSource(run)
    content = pairs(source, choice) if as_pairs else trajectories(source)
    folder = output or run / f"{content.name}-{to}"
    with write_folder(folder) as target:
        files = {phase: _file_name(phase, to) for phase in PHASES}
        (target / files[PHASES[0]]).parent.mkdir(parents=True)  # a hub-folder has data/ in it
        counts = {
            phase: _write(content, phase, target / file, target.parent)
            for phase, file in files.items()
        }
        rows = {phase: count for phase, count in counts.items() if count}
        if not rows:
            raise ConfigError(
                f"{run} has no {content.name} to export{NO_PAIRS if as_pairs else ''}"
            )
        if card or to == "hub-folder":
            text = data_card(
                f"{source.name}: {content.name}",
                source.manifest,
                {phase: files[phase] for phase in rows},
                rows,
                [(name, of.kind, of.meaning) for name, of in content.columns.items()],
            )
            (target / "README.md").write_text(text, encoding="utf-8")
    return Export(folder, rows)


def _file_name(phase: str, to: str) -> str:
    return {"jsonl": f"{phase}.jsonl", "parquet": f"{phase}.parquet"}.get(
        to, f"data/{phase}.parquet"
    )


def _write(content: Content, phase: str, file: Path, scratch: Path) -> int:
    """Write a phase, if it has any rows, and return their number."""
    # An empty split would fail in `load_dataset`.
    if next(content.rows(phase), None) is None:
        return 0
    if file.suffix == ".jsonl":
        with file.open("w", encoding="utf-8") as lines:
            # `write` returns the number of characters, which is never 0, so this counts the rows.
            return sum(1 for row in content.rows(phase) if lines.write(json.dumps(row) + "\n"))
    datasets = import_datasets()
    data_set = datasets.Dataset.from_generator(
        content.rows,
        # Types from the data would be null for a column without values, and differ between the
        # splits.
        features=datasets.Features({k: _feature(c) for k, c in content.columns.items()}),
        # In the temporary folder: the usual cache would keep a copy of the data for good.
        cache_dir=str(scratch / "cache"),
        gen_kwargs={"phase": phase},
        split=phase,
    )
    data_set.to_parquet(file)
    return int(data_set.num_rows)


def _feature(column: ExportColumn) -> Any:
    import datasets

    value = datasets.Value(column.kind.removesuffix("[]"))
    return [value] if column.kind.endswith("[]") else value
