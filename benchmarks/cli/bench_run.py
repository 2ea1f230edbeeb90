"""The command `llm-decpomdp bench`: from a suite to its league table; docs/bench.md.

The folder of a suite has `suite.json` (what it is made of), a folder for each job (see
`llm_decpomdp.benchmarks.suites.job`), and the
result: `league.csv`, `league.md` and `report.html`.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from rich.console import Console

from llm_decpomdp.benchmarks.cli.bench_dry_run import show_costs
from llm_decpomdp.benchmarks.config.catalogue import description
from llm_decpomdp.benchmarks.config.errors import ConfigError, writing
from llm_decpomdp.benchmarks.suites.cost import JobCost, job_cost
from llm_decpomdp.benchmarks.suites.job import FAILED, Job, jobs_of, refuse_others
from llm_decpomdp.benchmarks.suites.suite import Suite, find_suite, load_suite, shipped_suites
from llm_decpomdp.utils.storage import write_atomically
from llm_decpomdp.validation import unknown

FILE_WIDTH = 120
"""Columns of tables that go to no terminal."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Request:
    """What a command line asks for."""

    suite: str
    """Name or path."""
    only: Sequence[str] = ()
    """Names of cells; all if there are none."""
    dry_run: bool = False
    cores: int | None = None
    """How many cores may be used at most; all of them if none is given."""
    output: Path | None = None
    tokens_per_second: float | None = None
    """How fast the machine samples; a dry run then tells hours."""


def bench(request: Request) -> bool:
    """Run the missing jobs of a suite, and write what all of them have found.

    Returns:
        Whether no job has failed.

    Raises:
        ConfigError: If the suite, a cell or an option is wrong, or the folder holds another suite's results,
            a run or an evaluation.
        RunError: If the folder cannot be made.
        KeyboardInterrupt: On Ctrl-C, after every job has saved what it has.
    """
    suite = load_suite(find_suite(request.suite))
    output = request.output or Path("runs") / suite.name
    _check_names(request.only, suite)
    _refuse_runs(output)
    jobs = jobs_of(suite, output, request.only)
    if request.dry_run:
        return show_costs(suite, jobs, *costs_of(jobs), request.tokens_per_second)
    if request.tokens_per_second:
        raise ConfigError("--tokens-per-second tells the hours of a --dry-run: give both")
    with writing(output):
        output.mkdir(parents=True, exist_ok=True)
    with locked(output) as lock:
        refuse_others(jobs)
        write_suite(suite, request, output)
        missing = [job for job in jobs if not job.done]
        logger.info(
            "%d of %d trainings and evaluations are there already",
            len(jobs) - len(missing),
            len(jobs),
        )
        if missing:
            _run(missing, usable_cores()[: request.cores], lock)
        failed = [job for job in jobs if job.status().get("state") == FAILED]
        _tell(output)
    return not failed


def _run(missing: Sequence[Job], cores: Sequence[int], lock: IO[str]) -> None:
    from llm_decpomdp.benchmarks.suites.pool import Pool
    from llm_decpomdp.benchmarks.suites.progress import BenchProgress

    costs, unknown_costs = costs_of(missing)
    for name, reason in unknown_costs.items():
        logger.warning("%s: %s", name, reason)
    with BenchProgress(missing, costs) as progress:
        Pool(cores, lock, progress.changed).run(missing)


def _tell(output: Path) -> None:
    """Write the results, and print them."""
    from llm_decpomdp.benchmarks.report.suites import write_suite_report
    from llm_decpomdp.benchmarks.suites.league import read_league
    from llm_decpomdp.benchmarks.suites.league_files import as_tables, write_league

    league = read_league(output)
    write_league(league, output)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH)
    for table in as_tables(league):
        console.print(table)
    if league.tables:
        console.print(f"report: {write_suite_report(output)}", soft_wrap=True)
    for job in league.failed:
        console.print(
            f"FAILED: {job.name}: {job.error.splitlines()[-1]}", markup=False, soft_wrap=True
        )


def _check_names(only: Sequence[str], suite: Suite) -> None:
    names = [cell.name for cell in suite.cells]
    for name in only:
        if name not in names:
            raise ConfigError(unknown("cell", name, names))


def _refuse_runs(output: Path) -> None:
    """The report of a suite would replace that of a run or an evaluation."""
    files = (output / name for name in ("config.yaml", "manifest.json"))
    if not (output / "suite.json").exists() and any(path.exists() for path in files):
        raise ConfigError(f"{output} already holds a run or an evaluation: choose another --output")


def costs_of(jobs: Sequence[Job]) -> tuple[dict[str, JobCost], dict[str, str]]:
    """What one job of each cell costs, and why that is not known where it is not, by the names of cells."""
    costs: dict[str, JobCost] = {}
    reasons: dict[str, str] = {}
    for job in jobs:
        name = job.cell.name
        if name in costs or name in reasons:
            continue
        try:
            costs[name] = job_cost(job)
        except (ValueError, OSError, ImportError) as error:
            reasons[name] = str(error)
    return costs, reasons


def write_suite(suite: Suite, request: Request, output: Path) -> None:
    """Write `suite.json`, from which the results are put together again."""
    command = ["llm-decpomdp", "bench", request.suite]
    command += [] if request.output is None else ["--output", str(request.output)]
    content = {
        "name": suite.name,
        "description": suite.description,
        "command": command,
        "cells": [asdict(cell) for cell in suite.cells],
    }
    write_atomically(output / "suite.json", json.dumps(content, indent=2) + "\n")


@contextmanager
def locked(output: Path) -> Iterator[IO[str]]:
    """Keep other benches out of a folder, jobs that outlive theirs among them."""
    with (output / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.warning("another bench still works in %s: waiting for it to end", output)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def usable_cores() -> list[int]:
    """The numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def show_suites(suites: Mapping[str, Path] | None = None) -> None:
    """Print the suites that come with the package."""
    found = shipped_suites() if suites is None else suites
    width = max(map(len, found))
    console = Console(highlight=False, soft_wrap=True)
    for name, path in found.items():
        count = len(load_suite(path).cells)
        console.print(f"{name:<{width}}  {description(path)} ({count} cells)", markup=False)
