"""The result of a suite in numbers: every arm with intervals, and compared with the untrained team.

Arms are compared where they played the same problems of one environment, so a suite has a table for each set of
problems. Rewards are compared between teams of the same agents only: a single agent's task has another maximum.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.folder import EvaluationResult, read_evaluation
from llm_decpomdp.benchmarks.evaluation.play import REWARD, estimate_measure
from llm_decpomdp.benchmarks.evaluation.statistics import (
    Estimate,
    MethodComparison,
    compare,
)
from llm_decpomdp.benchmarks.suites.job import FAILED, is_done, read_status
from llm_decpomdp.benchmarks.suites.suite import UNTRAINED

PASS = "pass@1"

MEASURES = {
    REWARD: "reward",
    "tests_passed": "tests passed",
    "cooperation/uses_aux": "helper used",
    PASS: PASS,
    "tokens": "tokens an episode",
}
"""Measures of a table, and their headings."""

Scores = npt.NDArray[np.float64]
"""(seeds, tasks), each the mean over the samples of a task."""


@dataclass(frozen=True)
class LeaderboardRow:
    """An arm of the suite."""

    name: str
    method: str
    command: str
    """Command line that measures this arm again."""
    seeds: tuple[int, ...]
    """Seeds that are measured."""
    planned: int
    """Number of seeds of the arm, measured or not."""
    samples: int
    """Number of episodes of each task and seed."""
    estimates: Mapping[str, Estimate]
    """Estimates by measure, of `MEASURES` that the arm has."""
    comparisons: Mapping[str, MethodComparison]
    """Comparisons with another line, by measure; those that cannot be compared are missing."""
    against: str | None
    """Name of that line; `None` for one that others are compared with."""


@dataclass(frozen=True)
class LeaderboardTable:
    """The arms that played the same problems, the best first; those of other teams come last."""

    environment: str
    data: Mapping[str, Any]
    """Description of the data by the environment."""
    tasks: int
    against: str
    """Name of the line that others are compared with unless they say otherwise."""
    several_turns: bool
    """True if an episode had several turns, so that the reward at the end is not that of all turns."""
    lines: tuple[LeaderboardRow, ...]


@dataclass(frozen=True)
class Unfinished:
    """A job that has failed, or that was not done yet."""

    name: str
    folder: str
    error: str = ""
    """Traceback; empty for a job that was not done yet."""


@dataclass(frozen=True)
class Leaderboard:
    """The results of a suite."""

    suite: str
    description: str
    command: str
    tables: tuple[LeaderboardTable, ...]
    failed: tuple[Unfinished, ...]
    missing: tuple[Unfinished, ...]


@dataclass(frozen=True)
class _Measured:
    """An arm and its complete evaluations."""

    arm: Mapping[str, Any]
    seeds: tuple[int, ...]
    evaluations: tuple[EvaluationResult, ...]

    def key(self) -> tuple[Any, ...]:
        """Return the environment, data and tasks that arms must have in common to be compared."""
        manifest = self.evaluations[0].manifest
        data = manifest["data"]["eval"]["fingerprint"]
        return manifest["environment"], data, self.evaluations[0].tasks

    @property
    def environment(self) -> Mapping[str, Any]:
        """The environment's id and arguments."""
        arguments: Mapping[str, Any] = self.evaluations[0].manifest["identity"]["environment"]
        return arguments

    @property
    def team(self) -> list[str]:
        agents: list[str] = self.evaluations[0].manifest["identity"]["team"]
        return agents

    def scores(self, measure: str) -> Scores | None:
        """Return a measure by seed and task; `None` unless every seed has it for every task."""
        means = [
            evaluation.pass_at_k(1) if measure == PASS else evaluation.means(measure)
            for evaluation in self.evaluations
            if measure == PASS or measure in evaluation.values
        ]
        tasks = self.evaluations[0].tasks
        if len(means) < len(self.evaluations) or any(
            len(of_seed) < len(tasks) for of_seed in means
        ):
            return None
        return np.array([[of_seed[task] for task in tasks] for of_seed in means])


def read_suite(output: Path) -> dict[str, Any]:
    """Return the content of `suite.json`.

    Raises:
        ConfigError: If the folder holds no suite.
    """
    path = output / "suite.json"
    if not path.is_file():
        raise ConfigError(f"{output} holds no suite: make one with llm-decpomdp bench")
    suite: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return suite


def job_folders(output: Path, arm: Mapping[str, Any]) -> Iterator[tuple[int, Path]]:
    """Yield seeds and folders of an arm's jobs, existing or not."""
    for seed in arm["seeds"]:
        yield seed, output / f"{arm['name']}-seed-{seed}"


def read_leaderboard(output: Path) -> Leaderboard:
    """Read the results of the jobs in a suite's folder so far.

    Raises:
        ConfigError: If the folder holds no suite.
    """
    suite = read_suite(output)
    command, arms = shlex.join(suite["command"]), []
    failed, missing = [], []
    for arm in suite["cells"]:
        folders = dict(job_folders(output, arm))
        seeds = []
        for seed, folder in folders.items():
            status, name = read_status(folder), f"{arm['name']}, seed {seed}"
            if is_done(status, arm):
                seeds.append(seed)
            elif status.get("state") == FAILED:
                failed.append(Unfinished(name, folder.name, status["error"].strip()))
            else:
                missing.append(Unfinished(name, folder.name))
        if seeds:
            evaluations = tuple(read_evaluation(folders[seed]) for seed in seeds)
            arms.append(_Measured(arm, tuple(seeds), evaluations))
    groups: dict[tuple[Any, ...], list[_Measured]] = {}
    for entry in arms:
        groups.setdefault(entry.key(), []).append(entry)
    tables = tuple(_table(group, command) for group in groups.values())
    return Leaderboard(
        suite["name"], suite["description"], command, tables, tuple(failed), tuple(missing)
    )


def _table(group: Sequence[_Measured], command: str) -> LeaderboardTable:
    # The untrained team of the same environment is the natural reference; else the first arm.
    untrained = [entry for entry in group if entry.arm["method"] == UNTRAINED]
    reference = (untrained or group)[0]
    lines = {}
    by_name = {entry.arm["name"]: entry for entry in group}
    for name, entry in by_name.items():
        alike = (candidate for candidate in untrained if candidate.environment == entry.environment)
        choice = by_name.get(entry.arm.get("against"))
        lines[name] = _line(entry, choice or next(alike, reference), command)
    teams = {entry.arm["name"]: entry.team == reference.team for entry in group}
    ranked = sorted(
        lines.values(), key=lambda line: (not teams[line.name], -line.estimates[REWARD].value)
    )
    manifest = reference.evaluations[0].manifest
    return LeaderboardTable(
        manifest["environment"],
        manifest["data"]["eval"],
        len(reference.evaluations[0].tasks),
        reference.arm["name"],
        any(max(entry.evaluations[0].means("turns").values()) > 1 for entry in group),
        tuple(ranked),
    )


def _line(entry: _Measured, reference: _Measured, command: str) -> LeaderboardRow:
    scores = {measure: entry.scores(measure) for measure in MEASURES}
    comparisons = {}
    for measure, values in scores.items():
        baseline = reference.scores(measure)
        # A single agent has a lower maximum reward than a team.
        comparable = measure != REWARD or entry.team == reference.team
        if entry is not reference and comparable and values is not None and baseline is not None:
            comparisons[measure] = compare(baseline, values)
    name = entry.arm["name"]
    return LeaderboardRow(
        name,
        entry.arm["method"],
        f"{command} --only {name}",
        entry.seeds,
        len(entry.arm["seeds"]),
        entry.evaluations[0].samples,
        {
            measure: estimate_measure(measure, values)
            for measure, values in scores.items()
            if values is not None
        },
        comparisons,
        None if entry is reference else reference.arm["name"],
    )
