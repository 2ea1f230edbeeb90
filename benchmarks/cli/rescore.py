"""The command `rescore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llm_decpomdp.benchmarks.cli.options import Folder


def rescore(
    folder: Folder,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="All differences, as JSON Lines.")
    ] = None,
) -> None:
    """Grade stored episodes again, and name what differs.

    The exit code is 1 if anything does, or if the last line is incomplete.
    """
    from llm_decpomdp.benchmarks.analysis.rescore import rescore as again
    from llm_decpomdp.utils.text import visible

    result = again(folder, output)
    print(visible("\n".join(result.lines())))
    raise SystemExit(0 if result.agrees else 1)
