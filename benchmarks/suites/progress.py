"""The progress of `llm-decpomdp bench`: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from llm_decpomdp.benchmarks.evaluation.folder import TIMES
from llm_decpomdp.benchmarks.suites.cost import LEARNING, JobCost
from llm_decpomdp.benchmarks.suites.job import DONE, Job
from llm_decpomdp.utils.storage import read_json_lines
from llm_decpomdp.utils.text import duration

LOOK_SECONDS = 2.0
"""Seconds between two checks of running jobs."""


class BenchProgress:
    """Jobs done, those that run, and the time left, on stderr, while its `bars` are entered.

    The time left is what the remaining work takes at the speed so far, with the work of a job as `JobCost` has it,
    without what was done before this bench was started.

    Args:
        jobs: Jobs that are to be run.
        costs: Costs of a job of each cell, by name; cells whose cost is not known are missing.
    """

    def __init__(self, jobs: Sequence[Job], costs: Mapping[str, JobCost]) -> None:
        self._costs = costs
        self._left = {job.folder: self._work(job) for job in jobs}
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

    def changed(self, running: Sequence[Job], ended: Job | None) -> None:
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
        self._draw({name_of(job): shares[job.folder] for job in running})

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
        cost = self._costs.get(job.cell.name)
        return usual if cost is None else cost.work

    def _share(self, job: Job) -> float:
        """Return the share of a job's work that is done, from the files that it has written."""
        cost = self._costs.get(job.cell.name)
        if cost is None:
            return 0.0
        batches = read_json_lines(job.folder / TIMES, growing=True)
        evaluated: float = sum(row.get("episodes", 0) for row in batches) / max(1, cost.episodes)
        metrics = read_json_lines(job.folder / "training" / "metrics.jsonl", growing=True)
        learned = sum(1 for row in metrics if row["kind"] == "train") / max(1, cost.updates)
        training = LEARNING * cost.training_tokens
        work = evaluated * (cost.work - training) + min(1.0, learned) * training
        return min(1.0, work / cost.work)


def name_of(job: Job) -> str:
    """Return the name of a job, such as "magrpo, seed 0"."""
    return f"{job.cell.name}, seed {job.seed}"


def _ending(job: Job) -> str:
    status = job.status()
    if status["state"] == DONE:
        return f"done: {name_of(job)}, in {duration(status['seconds'])}"
    return f"FAILED: {name_of(job)}: {status['error'].strip().splitlines()[-1]}"
