"""The run of a suite: its missing jobs in processes, under the lock of its folder; docs/evaluation.md.

The folder of a suite has `suite.json` (its arms), a folder for each job (see
`llm_decpomdp.benchmarks.suites.job`), and the result: `leaderboard.csv`, `leaderboard.md` and `report.html`.
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
from llm_decpomdp.benchmarks.suites.job import DONE, FAILED, Job, refuse_others
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
        ConfigError: If a job's folder holds results of another arm.
        KeyboardInterrupt: On Ctrl-C, after every job has saved what it has.
    """
    # Before anything is written: results of a changed suite must not be mixed.
    refuse_others(jobs)
    write_suite(suite, command, folder)
    missing = [job for job in jobs if not job.done]
    logger.info(
        "%d of %d trainings and evaluations are there already", len(jobs) - len(missing), len(jobs)
    )
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
        "cells": [asdict(arm) for arm in suite.arms],
    }
    write_atomically(folder / "suite.json", json.dumps(content, indent=2) + "\n")


@contextmanager
def lock_folder(folder: Path) -> Iterator[IO[str]]:
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
            # Jobs keep the lock while they save, even when their bench was killed.
            logger.warning("another bench still works in %s: waiting for it to end", folder)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def usable_cores() -> list[int]:
    """Return the numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


# Reading the files of all running jobs takes some milliseconds each.
LOOK_SECONDS = 2.0
"""Seconds between two checks of running jobs."""


class BenchProgress:
    """Jobs done, those that run, and the time left, on stderr, while its `bars` are entered.

    The time left is what the remaining work takes at the speed so far, with the work of a job as `JobCost` has it,
    without what was done before this bench was started.

    Args:
        jobs: Jobs that are to be run.
        costs: Costs of a job of each arm, by name; arms whose cost is not known are missing.
    """

    def __init__(self, jobs: Sequence[Job], costs: Mapping[str, JobCost]) -> None:
        self._costs = costs
        self._left = {job.folder: self._work(job) for job in jobs}
        # Work of an earlier session is done already, and would make the speed look too high.
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
        """Show how far the running jobs are, and which one has just ended."""
        now = time.monotonic()
        if ended is None and now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        if ended is not None:
            del self._left[ended.folder]
        shares = {job.folder: self._share(job) for job in running}
        share = 1 - self._sum_left(shares) / self._total if self._total else 1.0
        text = f"{self._count - len(self._left)} of {self._count}{self._time(share)}"
        if ended is not None:
            self._console.print(f"{_ending(ended)} ({text})", markup=False)
        self.bars.update(self._all, completed=share, note=text)
        self._draw({job_name(job): shares[job.folder] for job in running})

    def _sum_left(self, shares: Mapping[Path, float]) -> float:
        """Return the remaining work, given the shares of some jobs; others count as at the start."""
        shares_of = {**self._before, **shares}
        return sum(work * (1 - shares_of[folder]) for folder, work in self._left.items())

    def _draw(self, shares: Mapping[str, float]) -> None:
        for name in [name for name in self._tasks if name not in shares]:
            self.bars.remove_task(self._tasks.pop(name))
        for name, share in shares.items():
            if name not in self._tasks:
                self._tasks[name] = self.bars.add_task(name, total=1.0, note="")
            self.bars.update(self._tasks[name], completed=share)

    def _time(self, share: float) -> str:
        if share <= 0 or share >= 1:
            return ""
        seconds = (time.monotonic() - self._begin) * (1 - share) / share
        return f", about {duration(seconds)} left"

    def _work(self, job: Job) -> float:
        works = [cost.work for cost in self._costs.values()]
        usual = sum(works) / len(works) if works else 1.0
        cost = self._costs.get(job.arm.name)
        return usual if cost is None else cost.work

    def _share(self, job: Job) -> float:
        """Return the share of a job's work that is done, from the files that it has written."""
        cost = self._costs.get(job.arm.name)
        if cost is None:
            return 0.0
        batches = read_json_lines(job.folder / TIMES, growing=True)
        evaluated: float = sum(row.get("episodes", 0) for row in batches) / max(1, cost.episodes)
        metrics = read_json_lines(job.folder / "training" / "metrics.jsonl", growing=True)
        learned = sum(1 for row in metrics if row["kind"] == "train") / max(1, cost.updates)
        training = LEARNING * cost.training_tokens
        work = evaluated * (cost.work - training) + min(1.0, learned) * training
        return min(1.0, work / cost.work)


def job_name(job: Job) -> str:
    """Return the name of a job, such as "magrpo, seed 0"."""
    return f"{job.arm.name}, seed {job.seed}"


def _ending(job: Job) -> str:
    status = job.status()
    if status["state"] == DONE:
        return f"done: {job_name(job)}, in {duration(status['seconds'])}"
    return f"FAILED: {job_name(job)}: {status['error'].strip().splitlines()[-1]}"
