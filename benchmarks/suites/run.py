"""The run of a suite: its missing jobs in processes, under the lock of its folder; docs/experiments.md.

The folder of a suite has `suite.json` with its arms, a folder for each job (see
`llm_decpomdp.benchmarks.suites.job`), and the results: `leaderboard.csv`, `leaderboard.md` and `report.html`.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from llm_decpomdp.benchmarks.config.errors import ConfigError, writing
from llm_decpomdp.benchmarks.evaluation.folder import TIMES
from llm_decpomdp.benchmarks.suites.cost import LEARNING, JobCost, estimate_costs
from llm_decpomdp.benchmarks.suites.job import (
    DONE,
    FAILED,
    Job,
    refuse_others,
    require_initial_teams,
)
from llm_decpomdp.benchmarks.suites.pool import JobPool, RayPool
from llm_decpomdp.benchmarks.suites.suite import Suite
from llm_decpomdp.utils.storage import read_json_lines, write_atomically
from llm_decpomdp.utils.text import duration

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
    """Run the unfinished jobs of a suite.

    Args:
        suite: The suite.
        jobs: Its jobs, or some of them.
        folder: Its folder.
        command: The command line, for the results.
        cores: Maximum number of cores; `None` for all.
        lock: The lock of the folder, from `lock_folder`.
        ray: Arguments of `RayPool`; `None` for this machine.

    Returns:
        The failed jobs.

    Raises:
        ConfigError: If a job's folder holds results of another arm.
        KeyboardInterrupt: On Ctrl-C, after every job has saved its results.
    """
    # Checked before anything is written: results of a changed suite must not be mixed.
    refuse_others(jobs)
    require_initial_teams(jobs)
    cells = [asdict(arm) for arm in suite.arms]
    content = {
        "name": suite.name,
        "description": suite.description,
        "command": command,
        "cells": cells,
    }
    write_atomically(folder / "suite.json", json.dumps(content, indent=2) + "\n")
    missing = [job for job in jobs if not job.done]
    logger.info("%d of %d jobs are already done", len(jobs) - len(missing), len(jobs))
    if missing:
        costs, reasons = estimate_costs(missing)
        for name, reason in reasons.items():
            logger.warning("%s: %s", name, reason)
        progress = BenchProgress(missing, costs)
        with progress.bars:
            if ray is not None:
                RayPool(**ray, update=progress.update).run(missing)
            else:
                JobPool(usable_cores()[:cores], lock, progress.update).run(missing)
    return [job for job in jobs if job.status().get("state") == FAILED]


def refuse_runs(folder: Path) -> None:
    """Raise a `ConfigError` if a folder holds a run or an evaluation, whose report the suite would overwrite."""
    files = (folder / name for name in ("config.yaml", "manifest.json"))
    if not (folder / "suite.json").exists() and any(path.exists() for path in files):
        raise ConfigError(f"{folder} already holds a run or an evaluation: choose another --output")


@contextmanager
def lock_folder(folder: Path) -> Iterator[IO[str]]:
    """Make a suite's folder (or raise a `RunError`), and lock it against other benches and their last jobs."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Jobs keep the lock while they save, even after their bench was killed.
            logger.warning("another bench still uses %s: waiting for its end", folder)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def usable_cores() -> list[int]:
    """Return the numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


# Seconds between two checks of running jobs, whose files take some milliseconds each.
LOOK_SECONDS = 2.0


class BenchProgress:
    """Finished and running jobs and the remaining time, on stderr, while its `bars` are entered.

    The remaining time assumes the present speed, with the work of jobs from `JobCost`.

    Args:
        jobs: Jobs to run.
        costs: Known costs of a job of each arm, by name.
    """

    def __init__(self, jobs: Sequence[Job], costs: Mapping[str, JobCost]) -> None:
        self._costs = costs
        self._left = {job.folder: self._work(job) for job in jobs}
        # Work of an earlier session must not count as speed of this one.
        self._before = {job.folder: self._share(job) for job in jobs}
        self._total = self._sum_left({})
        self._begin = self._looked = time.monotonic()
        self._count = len(jobs)
        self._tasks: dict[str, TaskID] = {}
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[note]}"),
            console=self._console,
            disable=not sys.stderr.isatty(),
        )
        self._all = self.bars.add_task("all", total=1.0, note="")

    def update(self, running: Sequence[Job], ended: Job | None) -> None:
        """Show the progress of the running jobs, and the job that has just ended."""
        now = time.monotonic()
        if ended is None and now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        if ended is not None:
            del self._left[ended.folder]
        shares = {job.folder: self._share(job) for job in running}
        share = 1 - self._sum_left(shares) / self._total if self._total else 1.0
        text = f"{self._count - len(self._left)} of {self._count}"
        if 0 < share < 1:
            seconds = (time.monotonic() - self._begin) * (1 - share) / share
            text += f", about {duration(seconds)} left"
        if ended is not None:
            status, name = ended.status(), _job_name(ended)
            if status["state"] == DONE:
                ending = f"done: {name}, in {duration(status['seconds'])}"
            else:
                ending = f"FAILED: {name}: {status['error'].strip().splitlines()[-1]}"
            self._console.print(f"{ending} ({text})", markup=False)
        self.bars.update(self._all, completed=share, note=text)
        names = {_job_name(job): shares[job.folder] for job in running}
        for name in [name for name in self._tasks if name not in names]:
            self.bars.remove_task(self._tasks.pop(name))
        for name, fraction in names.items():
            if name not in self._tasks:
                self._tasks[name] = self.bars.add_task(name, total=1.0, note="")
            self.bars.update(self._tasks[name], completed=fraction)

    def _sum_left(self, shares: Mapping[Path, float]) -> float:
        """Return the remaining work, given the finished shares of some jobs."""
        shares_of = {**self._before, **shares}
        return sum(work * (1 - shares_of[folder]) for folder, work in self._left.items())

    def _work(self, job: Job) -> float:
        works = [cost.work for cost in self._costs.values()]
        usual = sum(works) / len(works) if works else 1.0
        cost = self._costs.get(job.arm.name)
        return usual if cost is None else cost.work

    def _share(self, job: Job) -> float:
        cost = self._costs.get(job.arm.name)
        if cost is None:
            return 0.0
        # The job is writing these files, so their last lines may be incomplete.
        batches = read_json_lines(job.folder / TIMES, growing=True)
        evaluated: float = sum(row.get("episodes", 0) for row in batches) / max(1, cost.episodes)
        metrics = read_json_lines(job.folder / "training" / "metrics.jsonl", growing=True)
        learned = sum(1 for row in metrics if row["kind"] == "train") / max(1, cost.updates)
        training = LEARNING * cost.training_tokens
        work = evaluated * (cost.work - training) + min(1.0, learned) * training
        return min(1.0, work / cost.work)


def _job_name(job: Job) -> str:
    return f"{job.arm.name}, seed {job.seed}"
