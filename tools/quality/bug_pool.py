"""Writer of the list of bugs of `bugfix-v0`: `python -m tools.quality.bug_pool FILE`.

It runs every mutant of every bundled program against the tests, which takes minutes. Run it again after a change
of the programs, their tests or the mutations. A test compares the file with the result.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from llm_decpomdp.envs.bugfix.programs import bundled_sources, counting_faults
from llm_decpomdp.envs.sandbox import Sandbox
from llm_decpomdp.envs.source_code.mutation import KINDS, mutants


def main(path: Annotated[Path, typer.Argument(metavar="FILE", help="File of the list.")]) -> None:
    """Write the list to a file, and print the share of mutants that count as bugs for each kind."""
    sandbox, totals, faulty, lines = Sandbox(), Counter[str](), Counter[str](), []
    sizes: Counter[int] = Counter()
    for source in bundled_sources():
        faults = counting_faults(source, sandbox)
        totals.update(mutant.kind for mutant in mutants(source.code))
        faulty.update(keys[0].partition("@")[0] for keys in faults if len(keys) == 1)
        sizes.update(map(len, faults))
        row = {"program": source.name, "faults": [" ".join(keys) for keys in faults]}
        lines.append(json.dumps(row) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    print("| kind | mutants | count as bugs | share |\n|---|---|---|---|")
    for kind in (*KINDS, "all"):
        total, good = (sum(c.values()) if kind == "all" else c[kind] for c in (totals, faulty))
        print(f"| {kind} | {total} | {good} | {good / max(total, 1):.0%} |")
    print(f"\nTasks by number of bugs: {dict(sorted(sizes.items()))}")


if __name__ == "__main__":
    typer.run(main)
