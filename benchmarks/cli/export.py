"""The command `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    run: Annotated[Path, typer.Argument(metavar="FOLDER", help="A run or an evaluation.")],
    to: Annotated[str, typer.Option(help="parquet, jsonl or hub-folder.")] = "parquet",
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A new folder; by default in the run's.")
    ] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Preference pairs instead of trajectories.")
    ] = False,
    min_margin: Annotated[
        float, typer.Option(min=0, help="The least difference in reward of a pair.")
    ] = 0,
    pair_kind: Annotated[
        str,
        typer.Option(help="joint, or single for pairs in which one agent alone said otherwise."),
    ] = "joint",
    pairs_per_group: Annotated[int, typer.Option(min=1, help="Most pairs of a group.")] = 1,
) -> None:
    """Write episodes as a data set: trajectories, or the best against the worst of each group."""
    from llm_decpomdp.benchmarks.export import write as exporting

    result = exporting.export(
        *(run, to, output),
        as_pairs=pairs,
        min_margin=min_margin,
        pair_kind=pair_kind,
        pairs_per_group=pairs_per_group,
    )
    for split, count in result.rows.items():
        print(f"{split}: {count} rows")
    print(result.folder)
