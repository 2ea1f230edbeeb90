"""The result of a suite: its tables in numbers, as CSV, as Markdown and for a terminal.

Arms are compared where they played the same problems of one environment, so a suite has a table for each set of
problems. Rewards are compared between teams of the same agents only: the maximum of a single agent differs.
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
from rich.table import Table

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation import experiments
from llm_decpomdp.benchmarks.evaluation.folder import (
    EvaluationResult,
    estimate_measure,
    read_evaluation,
)
from llm_decpomdp.benchmarks.evaluation.play import REWARD
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, MethodComparison, compare
from llm_decpomdp.benchmarks.suites.job import FAILED, is_done, read_status
from llm_decpomdp.benchmarks.suites.suite import UNTRAINED
from llm_decpomdp.utils.storage import write_atomically, write_csv

PASS = "pass@1"

MEASURES = {
    REWARD: "reward",
    "tests_passed": "tests passed",
    "cooperation/uses_aux": "helper used",
    PASS: PASS,
    "tokens": "tokens per episode",
    "sequential_tokens": "sequential tokens",
    "answer_seconds": "seconds to answer",
}

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
    planned: int
    """Number of seeds of the arm, measured or not."""
    samples: int
    estimates: Mapping[str, Estimate]
    comparisons: Mapping[str, MethodComparison]
    """Comparisons with the reference by measure, if the measure is comparable."""
    against: str | None
    """Name of the reference; `None` for the reference itself."""

    def value(self, measure: str) -> str:
        """Return the estimate of a measure as text."""
        estimate = self.estimates.get(measure)
        return NONE if estimate is None else experiments.format_estimate(estimate)


@dataclass(frozen=True)
class LeaderboardTable:
    """The arms that played the same problems, the best first; other teams than that of the reference come last."""

    environment: str
    data: Mapping[str, Any]
    tasks: int
    against: str
    """Name of the reference for arms without their own."""
    several_turns: bool
    """True if an episode had several turns, so that the reward at its end is not that of all turns."""
    lines: tuple[LeaderboardRow, ...]


@dataclass(frozen=True)
class Unfinished:
    """A job that has failed or is not done yet."""

    name: str
    folder: str
    error: str = ""


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
class _MeasuredArm:
    arm: Mapping[str, Any]
    seeds: tuple[int, ...]
    evaluations: tuple[EvaluationResult, ...]

    @property
    def manifest(self) -> dict[str, Any]:
        return self.evaluations[0].manifest

    @property
    def team(self) -> list[str]:
        # A saved team may have its agents in another order than the environment.
        return sorted(self.manifest["identity"]["team"])

    def scores(self, measure: str) -> Scores | None:
        """Return a measure by seed and task; `None` unless every seed has it for every task."""
        tasks = self.evaluations[0].tasks
        rows = []
        for evaluation in self.evaluations:
            if measure != PASS and measure not in evaluation.values:
                return None
            means = evaluation.pass_at_k(1) if measure == PASS else evaluation.means(measure)
            if len(means) < len(tasks):
                return None
            rows.append([means[task] for task in tasks])
        return np.array(rows)


def read_suite(output: Path) -> dict[str, Any]:
    """Return the content of `suite.json`; raise a `ConfigError` if the folder holds no suite."""
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
    """Read the present results of the jobs in a suite's folder; raise a `ConfigError` if it holds no suite."""
    suite = read_suite(output)
    command = shlex.join(suite["command"])
    failed, missing = [], []
    # Only arms with equal environment, data and tasks are compared.
    groups: dict[tuple[Any, ...], list[_MeasuredArm]] = {}
    for arm in suite["cells"]:
        evaluations = {}
        for seed, folder in job_folders(output, arm):
            status, name = read_status(folder), f"{arm['name']}, seed {seed}"
            if is_done(status, arm):
                evaluations[seed] = read_evaluation(folder)
            elif status.get("state") == FAILED:
                failed.append(Unfinished(name, folder.name, status["error"].strip()))
            else:
                missing.append(Unfinished(name, folder.name))
        if evaluations:
            entry = _MeasuredArm(arm, tuple(evaluations), tuple(evaluations.values()))
            manifest, tasks = entry.manifest, entry.evaluations[0].tasks
            key = (manifest["environment"], manifest["data"]["eval"]["fingerprint"], tasks)
            groups.setdefault(key, []).append(entry)
    tables = tuple(_make_table(group, command) for group in groups.values())
    return Leaderboard(
        suite["name"], suite["description"], command, tables, tuple(failed), tuple(missing)
    )


def _make_table(group: Sequence[_MeasuredArm], command: str) -> LeaderboardTable:
    # The reference is the untrained team of the same environment, or else the first arm.
    untrained = [entry for entry in group if entry.arm["method"] == UNTRAINED]
    reference = (untrained or group)[0]
    by_name = {entry.arm["name"]: entry for entry in group}
    rows = []
    for entry in group:
        environment = entry.manifest["identity"]["environment"]
        alike = (e for e in untrained if e.manifest["identity"]["environment"] == environment)
        choice = by_name.get(entry.arm.get("against")) or next(alike, reference)
        rows.append(_make_row(entry, choice, command))
    rows.sort(
        key=lambda row: (by_name[row.name].team != reference.team, -row.estimates[REWARD].value)
    )
    return LeaderboardTable(
        reference.manifest["environment"],
        reference.manifest["data"]["eval"],
        len(reference.evaluations[0].tasks),
        reference.arm["name"],
        any(max(entry.evaluations[0].means("turns").values()) > 1 for entry in group),
        tuple(rows),
    )


def _make_row(entry: _MeasuredArm, reference: _MeasuredArm, command: str) -> LeaderboardRow:
    estimates, comparisons = {}, {}
    for measure in MEASURES:
        values, baseline = entry.scores(measure), reference.scores(measure)
        if values is None:
            continue
        estimates[measure] = estimate_measure(measure, values)
        # A single agent has a lower maximum reward than a team.
        comparable = measure != REWARD or entry.team == reference.team
        if entry is not reference and comparable and baseline is not None:
            comparisons[measure] = compare(baseline, values)
    name = entry.arm["name"]
    return LeaderboardRow(
        name,
        entry.arm["method"],
        f"{command} --only {name}",
        entry.seeds,
        len(entry.arm["seeds"]),
        entry.evaluations[0].samples,
        estimates,
        comparisons,
        None if entry is reference else reference.arm["name"],
    )


CSV_COLUMNS = (
    *("environment", "data", "stand_in", "tasks", "arm", "method", "seeds", "samples", "measure"),
    *("value", "low", "high", "against", "difference", "difference_low", "difference_high"),
    *("improvement", "improvement_low", "improvement_high", "seeds_needed", "command"),
)

NONE = "—"

AGAINST = "against "

AT_THE_END = "reward at the end"
"""Name of the reward of episodes with several turns."""

IN_TERMINALS = ("arm", "seeds", "reward", AT_THE_END, MEASURES["tests_passed"])
"""Columns for a terminal, beside the difference."""

NOTES = (
    "In brackets: 95 % intervals over tasks and seeds.",
    "Differences are paired by task; P(better) is the probability that a seed beats one of the other on a task.",
)


def write_leaderboard(leaderboard: Leaderboard, output: Path) -> None:
    """Write `leaderboard.csv` and `leaderboard.md` into the suite's folder."""
    write_csv(output / "leaderboard.csv", CSV_COLUMNS, _csv_lines(leaderboard))
    write_atomically(output / "leaderboard.md", to_markdown(leaderboard))


def _csv_lines(leaderboard: Leaderboard) -> Iterator[list[Any]]:
    for table in leaderboard.tables:
        data = f"{table.data['name']} {table.data['split']}"
        about = [table.environment, data, table.data["stand_in"], table.tasks]
        for line in table.lines:
            for measure, estimate in line.estimates.items():
                compared: list[Any] = [None] * 8
                if comparison := line.comparisons.get(measure):
                    difference, better = comparison.difference, comparison.improvement
                    compared = [line.against]
                    for part in (difference, better):
                        compared += [part.value, part.low, part.high]
                    compared.append(comparison.seeds_needed)
                yield [
                    *about,
                    *(line.name, line.method, len(line.seeds), line.samples, measure),
                    *(estimate.value, estimate.low, estimate.high),
                    *compared,
                    line.command,
                ]


def to_markdown(leaderboard: Leaderboard) -> str:
    """Return a table for each set of problems, with the command that made it."""
    parts = []
    for table in leaderboard.tables:
        head, rows = table_cells(table)
        lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
        grid = "\n".join(f"| {' | '.join(row)} |" for row in lines)
        parts.append(f"**{table_title(table)}**\n\n{grid}")
    notes = [*dict.fromkeys(note for table in leaderboard.tables for note in table_notes(table))]
    notes += unfinished_lines(leaderboard)
    notes.append(f"Made by `{leaderboard.command}`; a single row with `--only NAME`.")
    return "\n\n".join([*parts, "\n".join(notes)]) + "\n"


def table_notes(table: LeaderboardTable) -> list[str]:
    """Return the notes below a table."""
    notes = list(NOTES)
    if table.several_turns:
        notes.append("The reward at the end is that of an episode's last turn.")
    if "seeds needed" in table_cells(table)[0]:
        notes.append(experiments.SEEDS_NEEDED_NOTE)
    return notes


def unfinished_lines(leaderboard: Leaderboard) -> list[str]:
    """Return sentences on the jobs that failed or are not run yet."""
    groups = {"Failed": leaderboard.failed, "Not measured yet": leaderboard.missing}
    return [f"{word}: {'; '.join(j.name for j in jobs)}." for word, jobs in groups.items() if jobs]


def table_title(table: LeaderboardTable) -> str:
    """Describe the problems of a table."""
    data, samples = table.data, sorted({line.samples for line in table.lines})
    times = "one episode" if samples == [1] else f"{' or '.join(map(str, samples))} episodes"
    return (
        f"{table.environment.rpartition(':')[2]}, {table.tasks} problems ({data['name']} {data['split']}"
        f"{', bundled stand-in' * data['stand_in']}), {times} per problem and seed"
    )


def table_cells(table: LeaderboardTable) -> tuple[list[str], list[list[str]]]:
    """Return head and rows of a table as text, without empty columns."""
    reward = AT_THE_END if table.several_turns else MEASURES[REWARD]
    rows = []
    for line in table.lines:
        count, difference, better, num_seeds = len(line.seeds), NONE, NONE, NONE
        if comparison := line.comparisons.get(REWARD):
            difference = experiments.format_estimate(comparison.difference, sign=True)
            if line.against != table.against:
                difference += f" {AGAINST}{line.against}"
            better = experiments.format_estimate(comparison.improvement)
            num_seeds = experiments.seeds_needed(comparison)
        rows.append(
            {
                "arm": line.name,
                "seeds": str(count) if count == line.planned else f"{count} of {line.planned}",
                reward: line.value(REWARD),
                f"{AGAINST}{table.against}": difference,
                "P(better)": better,
                "seeds needed": num_seeds,
                **{MEASURES[measure]: line.value(measure) for measure in [*MEASURES][1:]},
            }
        )
    head = [name for name in rows[0] if any(row[name] != NONE for row in rows)]
    return head, [[row[name] for name in head] for row in rows]


def to_tables(leaderboard: Leaderboard) -> Sequence[Table]:
    """Return the tables for a terminal, which has no room for all columns."""
    tables = []
    for table in leaderboard.tables:
        head, rows = table_cells(table)
        indices = [
            i for i, name in enumerate(head) if name in IN_TERMINALS or name.startswith(AGAINST)
        ]
        grid = Table(title=table_title(table), title_justify="left")
        for i in indices:
            grid.add_column(head[i], justify="right" if i else "left")
        for row in rows:
            grid.add_row(*(row[i] for i in indices))
        tables.append(grid)
    return tables
