"""The command `necessity`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def necessity(
    team: Annotated[Path, typer.Argument(metavar="TEAM", help="An evaluation of a team.")],
    single: Annotated[
        Path,
        typer.Argument(metavar="SINGLE", help="One of the baseline single_agent_matched."),
    ],
) -> None:
    """Compare a team with a single agent task by task: what are several agents good for?"""
    from rich.console import Console

    from llm_decpomdp.benchmarks.analysis.necessity import compare_folders, tables

    result = compare_folders(team, single)
    console = Console(highlight=False)
    console.print(tables(result))
    console.print(f"necessity: {team / 'necessity.json'}, {team / 'necessity.csv'}", soft_wrap=True)
