"""`python -m tests.attacks`: run of the corpus in every isolation mode, and a table of the results."""

from __future__ import annotations

import argparse
import os
import sys

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.attacks.entries import ENTRIES, QUICK_ENTRIES
from tests.attacks.running import LAYERS, MODES, SLOW, Result, lacking, run_all

console = Console(width=None if sys.stdout.isatty() else 140)


def main() -> int:
    """Run the entries and modes of the command line; 1 if anything was fooled, harmed, hung or wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument(
        "--without",
        nargs="*",
        choices=LAYERS,
        metavar="LAYER",
        help=f"only the mode without these layers ({', '.join(LAYERS)}; none of them: full isolation)",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="programs at a time")
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="only entries with this in the name"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="limit on loading and on a call")
    parser.add_argument("--quick", action="store_true", help=f"without {SLOW}")
    parser.add_argument("--fourth", action="store_true", help="a fourth of each kind")
    arguments = parser.parse_args()
    modes = MODES
    if arguments.without is not None:
        without = tuple(layer for layer in LAYERS if layer in arguments.without)
        names = {layers: name for name, layers in MODES.items()}
        modes = {names.get(without, "without " + ", ".join(without)): without}
    entries = [name for name in ENTRIES if arguments.only in name]
    if arguments.quick:
        entries = [name for name in entries if ENTRIES[name].category != SLOW]
    if arguments.fourth:
        entries = [name for name in entries if name in QUICK_ENTRIES]
    bad, progress = 0, Console(stderr=True)
    for mode, without in track(modes.items(), "Attacks", console=progress, transient=True):
        reason = lacking(without)
        if reason:
            console.print(f"[bold]{mode}[/]: not offered by this machine ({reason})\n")
            continue
        results = run_all(entries, without, arguments.seconds, arguments.jobs)
        bad += show(mode, results)
    return 1 if bad else 0


def show(mode: str, results: list[Result]) -> int:
    """Print the results of one mode; return the number of entries that went wrong."""
    columns = ("ok", "fooled", "harmed", "hung", "wrong", "known")
    table = Table("category", "entries", *columns, "seconds", title=mode, title_justify="left")
    categories = list(dict.fromkeys(result.category for result in results))
    for category in (*categories, "total"):
        rows = [result for result in results if category in (result.category, "total")]
        counts = dict.fromkeys(columns, 0)
        for result in rows:
            counts["known" if result.known else result.judgement] += 1
        seconds = sum(result.seconds for result in rows)
        table.add_row(category, str(len(rows)), *map(str, counts.values()), f"{seconds:.1f}")
    console.print(table)
    bad = [result for result in results if result.judgement != "ok" and not result.known]
    for result in bad:
        line = f"{result.judgement:7} {result.entry}: {result.detail}"
        console.print(line, markup=False, highlight=False)
    console.print()
    return len(bad)


if __name__ == "__main__":
    sys.exit(main())
