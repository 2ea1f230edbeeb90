"""Measure the declared hypotheses, judge them and write their page: `python -m studies.hypotheses`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from llm_decpomdp.benchmarks.cli.console import exit_codes, prepare_process
from llm_decpomdp.benchmarks.suites.run import lock_folder, usable_cores
from studies.hypotheses.page import HEAD, rows, write_page
from studies.hypotheses.suite import read_verdicts, run_science

FILE_WIDTH = 120
"""Width of a table in a file or a pipe, in characters."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the missing seeds of a folder, write its page, and print the verdicts."""
    parser = argparse.ArgumentParser(prog="python -m studies.hypotheses", description=__doc__)
    parser.add_argument(
        "--only",
        metavar="ID",
        action="append",
        default=[],
        help="id of a hypothesis; may be repeated",
    )
    parser.add_argument("--cores", type=int, help="maximum number of processes; default: all cores")
    parser.add_argument("--output", type=Path, default=Path("runs/science"), metavar="FOLDER")
    options = parser.parse_args(arguments)
    prepare_process()
    with exit_codes(), lock_folder(options.output):
        cores = options.cores or len(usable_cores())
        for line in run_science(options.output, options.only, cores):
            print(line, file=sys.stderr, flush=True)
        verdicts = read_verdicts(options.output)
        table = Table(*HEAD)
        for cells in rows(verdicts):
            table.add_row(*cells)
        console = Console(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH)
        console.print(table)
        path = write_page(verdicts, options.output)
        console.print(f"report: {path}", soft_wrap=True)


if __name__ == "__main__":
    main()
