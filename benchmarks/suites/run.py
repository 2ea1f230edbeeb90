"""The run of a suite: its missing jobs in processes, under the lock of its folder; docs/evaluation.md.

The folder of a suite has `suite.json` (its cells), a folder for each job (see
`llm_decpomdp.benchmarks.suites.job`), and the result: `league.csv`, `league.md` and `report.html`.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from llm_decpomdp.benchmarks.config.errors import ConfigError, writing
from llm_decpomdp.benchmarks.suites.cost import costs_of
from llm_decpomdp.benchmarks.suites.job import FAILED, Job, refuse_others
from llm_decpomdp.benchmarks.suites.pool import Pool
from llm_decpomdp.benchmarks.suites.progress import BenchProgress
from llm_decpomdp.benchmarks.suites.ray_pool import RayPool
from llm_decpomdp.benchmarks.suites.suite import Suite
from llm_decpomdp.utils.storage import write_atomically

logger = logging.getLogger(__name__)


def run_suite(
    suite: Suite,
    jobs: Sequence[Job],
    folder: Path,
    command: Sequence[str],
    cores: int | None,
    lock: IO[str],
    ray: Mapping[str, Any] | None = None,
) -> list[Job]:
    """Run those of a suite's jobs that are not done yet.

    Args:
        suite: The suite.
        jobs: Its jobs, or some of them.
        folder: Its folder.
        command: The command line that runs it, which its results name.
        cores: Number of cores to use at most; `None` for all.
        lock: From `locked`, of the same folder.
        ray: Address and trust of the Ray cluster that runs them; `None` for this machine.

    Returns:
        The jobs that have failed.

    Raises:
        ConfigError: If a job's folder holds results of another cell.
        KeyboardInterrupt: On Ctrl-C, after every job has saved what it has.
    """
    refuse_others(jobs)
    write_suite(suite, command, folder)
    missing = [job for job in jobs if not job.done]
    logger.info(
        "%d of %d trainings and evaluations are there already", len(jobs) - len(missing), len(jobs)
    )
    if missing:
        costs, reasons = costs_of(missing)
        for name, reason in reasons.items():
            logger.warning("%s: %s", name, reason)
        progress = BenchProgress(missing, costs)
        with progress.bars:
            if ray is not None:
                RayPool(**ray, changed=progress.changed).run(missing)
            else:
                Pool(usable_cores()[:cores], lock, progress.changed).run(missing)
    return [job for job in jobs if job.status().get("state") == FAILED]


def refuse_runs(folder: Path) -> None:
    """Check that a folder holds no run and no evaluation, whose report that of a suite would replace.

    Raises:
        ConfigError: If it does.
    """
    files = (folder / name for name in ("config.yaml", "manifest.json"))
    if not (folder / "suite.json").exists() and any(path.exists() for path in files):
        raise ConfigError(f"{folder} already holds a run or an evaluation: choose another --output")


def write_suite(suite: Suite, command: Sequence[str], folder: Path) -> None:
    """Write `suite.json`, from which the results are put together again."""
    content = {
        "name": suite.name,
        "description": suite.description,
        "command": command,
        "cells": [asdict(cell) for cell in suite.cells],
    }
    write_atomically(folder / "suite.json", json.dumps(content, indent=2) + "\n")


@contextmanager
def exclusive_access(folder: Path) -> Iterator[IO[str]]:
    """Make a suite's folder, and keep other benches out of it, jobs that outlive theirs among them.

    Raises:
        RunError: If it cannot be made.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.warning("another bench still works in %s: waiting for it to end", folder)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def usable_cores() -> list[int]:
    """Return the numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
