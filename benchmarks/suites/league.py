"""The result of a suite in numbers: every cell with intervals, and compared with the untrained team.

Cells are compared where they played the same problems of one environment, so a suite has a table for each set of
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
from llm_decpomdp.benchmarks.evaluation.folder import Evaluation, read_evaluation
from llm_decpomdp.benchmarks.evaluation.measures import REWARD, is_share
from llm_decpomdp.benchmarks.evaluation.statistics import (
    Comparison,
    Estimate,
    bootstrap,
    compare,
    share,
)
from llm_decpomdp.benchmarks.suites.job import FAILED, is_done, read_status
from llm_decpomdp.benchmarks.suites.suite import UNTRAINED

PASS = "pass@1"

MEASURES = {
    REWARD: "reward",
    "tests_passed": "tests passed",
    PASS: PASS,
    "tokens": "tokens an episode",
}
"""What a table shows of each cell, and the words for it."""

Scores = npt.NDArray[np.float64]
"""(seeds, tasks), each the mean over the samples of a task."""


@dataclass(frozen=True)
class Line:
    """A cell of the suite."""

    name: str
    method: str
    command: str
    """What measures this cell again."""
    seeds: tuple[int, ...]
    """Those that are measured."""
    wanted: int
    """How many seeds there should be."""
    samples: int
    """Of each task and seed."""
    estimates: Mapping[str, Estimate]
    """Each of `MEASURES` that the cell has."""
    comparisons: Mapping[str, Comparison]
    """The same against another line; without those that cannot be compared."""
    against: str | None
    """The name of that line; `None` for one that others are compared with."""


@dataclass(frozen=True)
class LeagueTable:
    """The cells that played the same problems, the best first; those of other teams come last."""

    environment: str
    data: Mapping[str, Any]
    """As the environment describes it."""
    tasks: int
    against: str
    """The name of the line that others are compared with unless they say otherwise."""
    several_turns: bool
    """Whether an episode had several turns, so that the reward at the end is not that of all turns."""
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Unfinished:
    """A job that has failed, or that was not done yet."""

    name: str
    folder: str
    error: str = ""
    """The traceback; empty for a job that was not done yet."""


@dataclass(frozen=True)
class League:
    """What is known of a suite."""

    suite: str
    description: str
    command: str
    tables: tuple[LeagueTable, ...]
    failed: tuple[Unfinished, ...]
    missing: tuple[Unfinished, ...]


@dataclass(frozen=True)
class _Measured:
    """A cell and its complete evaluations."""

    cell: Mapping[str, Any]
    seeds: tuple[int, ...]
    found: tuple[Evaluation, ...]

    def key(self) -> tuple[Any, ...]:
        """What cells must have in common to be compared."""
        manifest = self.found[0].manifest
        data = manifest["data"]["eval"]["fingerprint"]
        return manifest["environment"], data, self.found[0].tasks

    @property
    def environment(self) -> Mapping[str, Any]:
        """With its arguments."""
        found: Mapping[str, Any] = self.found[0].manifest["identity"]["environment"]
        return found

    @property
    def team(self) -> list[str]:
        agents: list[str] = self.found[0].manifest["identity"]["team"]
        return agents

    def scores(self, measure: str) -> Scores | None:
        """`None` unless every seed has it for every task."""
        means = [
            one.pass_at_k(1) if measure == PASS else one.means(measure)
            for one in self.found
            if measure == PASS or measure in one.values
        ]
        tasks = self.found[0].tasks
        if len(means) < len(self.found) or any(len(of_seed) < len(tasks) for of_seed in means):
            return None
        return np.array([[of_seed[task] for task in tasks] for of_seed in means])


def read_suite(output: Path) -> dict[str, Any]:
    """The content of `suite.json`.

    Raises:
        ConfigError: If the folder holds no suite.
    """
    path = output / "suite.json"
    if not path.is_file():
        raise ConfigError(f"{output} holds no suite: make one with llm-decpomdp bench")
    suite: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return suite


def job_folders(output: Path, cell: Mapping[str, Any]) -> Iterator[tuple[int, Path]]:
    """The seeds and the folders of a cell's jobs, whether they are there or not."""
    for seed in cell["seeds"]:
        yield seed, output / f"{cell['name']}-seed-{seed}"


def read_league(output: Path) -> League:
    """What the jobs in a suite's folder have found so far.

    Raises:
        ConfigError: If the folder holds no suite.
    """
    suite = read_suite(output)
    command, measured = shlex.join(suite["command"]), []
    failed, missing = [], []
    for cell in suite["cells"]:
        folders = dict(job_folders(output, cell))
        done = []
        for seed, folder in folders.items():
            status, name = read_status(folder), f"{cell['name']}, seed {seed}"
            if is_done(status, cell):
                done.append(seed)
            elif status.get("state") == FAILED:
                failed.append(Unfinished(name, folder.name, status["error"].strip()))
            else:
                missing.append(Unfinished(name, folder.name))
        if done:
            found = tuple(read_evaluation(folders[seed]) for seed in done)
            measured.append(_Measured(cell, tuple(done), found))
    groups: dict[tuple[Any, ...], list[_Measured]] = {}
    for one in measured:
        groups.setdefault(one.key(), []).append(one)
    tables = tuple(_table(group, command) for group in groups.values())
    return League(
        suite["name"], suite["description"], command, tables, tuple(failed), tuple(missing)
    )


def _table(group: Sequence[_Measured], command: str) -> LeagueTable:
    untrained = [one for one in group if one.cell["method"] == UNTRAINED]
    reference = (untrained or group)[0]
    lines = {}
    for one in group:
        alike = (other for other in untrained if other.environment == one.environment)
        lines[one.cell["name"]] = _line(one, next(alike, reference), command)
    teams = {one.cell["name"]: one.team == reference.team for one in group}
    ranked = sorted(
        lines.values(), key=lambda line: (not teams[line.name], -line.estimates[REWARD].value)
    )
    manifest = reference.found[0].manifest
    return LeagueTable(
        manifest["environment"],
        manifest["data"]["eval"],
        len(reference.found[0].tasks),
        reference.cell["name"],
        any(max(one.found[0].means("turns").values()) > 1 for one in group),
        tuple(ranked),
    )


def _line(one: _Measured, reference: _Measured, command: str) -> Line:
    scores = {measure: one.scores(measure) for measure in MEASURES}
    comparisons = {}
    for measure, own in scores.items():
        other = reference.scores(measure)
        comparable = measure != REWARD or one.team == reference.team
        if one is not reference and comparable and own is not None and other is not None:
            comparisons[measure] = compare(other, own)
    name = one.cell["name"]
    return Line(
        name,
        one.cell["method"],
        f"{command} --only {name}",
        one.seeds,
        len(one.cell["seeds"]),
        one.found[0].samples,
        {measure: _estimate(measure, own) for measure, own in scores.items() if own is not None},
        comparisons,
        None if one is reference else reference.cell["name"],
    )


def _estimate(measure: str, scores: Scores) -> Estimate:
    return share(scores) if is_share(measure) else bootstrap(scores)
