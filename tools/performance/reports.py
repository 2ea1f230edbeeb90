"""Time and memory of reports of many runs, and of one large file, from made folders.

```bash
python -m tools.performance.reports --runs 1000          # a report of runs with 50 updates and 116 episodes each
python -m tools.performance.reports --gigabytes 2        # a report of one run with episodes of about 17 KB
```

It prints processor seconds and the peak of memory; the folders are removed again.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import tempfile
import time
from pathlib import Path

from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.report.document import report
from llm_decpomdp.utils.storage import RunFolder
from tests.benchmarks.report_runs import MANIFEST, chain, write

SEEDS = 10
"""Seeds of each configuration."""

TEMPLATES = 20
"""Runs with numbers of their own; the others are copies of them under other configurations."""


def make_run(path: Path, updates: int, group: int, rng: random.Random) -> None:
    """Write a run with two starts of a group in each update, and two evaluations of eight tasks."""
    run = RunFolder(path)
    for update in range(updates + 1):
        if update:
            for start in range(2):
                rewards = [[2 * rng.random() for _ in range(group)]]
                write(run, update, "train", [chain(f"train/{update}-{start}", rewards)])
        if update in (0, updates):
            chains = [chain(f"eval/{task}", [[rng.random()]]) for task in range(8)]
            write(run, update, "eval", chains)


def describe(path: Path, seed: int, rate: float) -> None:
    """Write configuration and manifest of a run."""
    run = RunFolder(path)
    run.write_manifest({**MANIFEST, "seed": seed})
    text = Config().to_yaml().replace("\nseed: 0", f"\nseed: {seed}")
    key = "learning_rate: "
    run.config.write_text(text.replace(key, f"{key}{rate} # ", 1), encoding="utf-8")


def make_runs(folder: Path, count: int) -> list[Path]:
    """Write runs of several configurations and seeds."""
    rng, paths = random.Random(0), [folder / f"run-{number:04d}" for number in range(count)]
    for number, path in enumerate(paths):
        if number < TEMPLATES:
            make_run(path, 50, 4, rng)
        else:
            shutil.copytree(paths[number % TEMPLATES], path)
        describe(path, number % SEEDS, (1 + number // SEEDS) * 1e-6)
    return paths


def make_large_run(path: Path, gigabytes: float) -> None:
    """Write a run whose training goes on until its episodes have a size."""
    make_run(path, 100, 8, random.Random(0))
    describe(path, 0, 1e-6)
    run = RunFolder(path)
    text = "def helper(x):\n    return x + 1\n" * 30
    rows = [json.loads(line) for line in run.episodes.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["phase"] == "train"]
    for group in (group for row in rows for group in row["groups"]):
        group["completions"] = {
            agent: [f"{of}{text}" for of in texts] for agent, texts in group["completions"].items()
        }
    with run.episodes.open("a", encoding="utf-8") as file:
        while file.tell() < gigabytes * 1e9:
            for row in rows:
                row["update"] += 100
                file.write(json.dumps(row) + "\n")


def main() -> None:
    """Make the folders, write the report, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--gigabytes", type=float, help="one run of this size instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        if options.gigabytes:
            paths = [Path(place, "run")]
            make_large_run(paths[0], options.gigabytes)
        else:
            paths = make_runs(Path(place), options.runs)
        begin = time.process_time()
        page = report(paths, Path(place, "page.html"), False)
        seconds, size = time.process_time() - begin, page.stat().st_size / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{seconds:.1f} s of a processor, peak {peak:.0f} MB, page {size:.1f} MB")


if __name__ == "__main__":
    main()
