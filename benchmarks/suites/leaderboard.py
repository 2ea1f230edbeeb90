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
from llm_decpomdp.benchmarks.evaluation.folder import EvaluationResult, read_evaluation
from llm_decpomdp.benchmarks.evaluation.play import REWARD, estimate_measure
from llm_decpomdp.benchmarks.evaluation.statistics import (
    Estimate,
    MethodComparison,
    compare,
)
from llm_decpomdp.benchmarks.suites.job import FAILED, is_done, read_status
from llm_decpomdp.benchmarks.suites.suite import UNTRAINED
from llm_decpomdp.utils.storage import write_atomically, write_csv
from llm_decpomdp.utils.text import number

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
    tables = tuple(_make_table(group, command) for group in groups.values())
    return Leaderboard(
        suite["name"], suite["description"], command, tables, tuple(failed), tuple(missing)
    )


def _make_table(group: Sequence[_Measured], command: str) -> LeaderboardTable:
    # The untrained team of the same environment is the natural reference; else the first arm.
    untrained = [entry for entry in group if entry.arm["method"] == UNTRAINED]
    reference = (untrained or group)[0]
    lines = {}
    by_name = {entry.arm["name"]: entry for entry in group}
    for name, entry in by_name.items():
        alike = (candidate for candidate in untrained if candidate.environment == entry.environment)
        choice = by_name.get(entry.arm.get("against"))
        lines[name] = _make_row(entry, choice or next(alike, reference), command)
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


def _make_row(entry: _Measured, reference: _Measured, command: str) -> LeaderboardRow:
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


CSV_COLUMNS = (
    *("environment", "data", "stand_in", "tasks", "arm", "method", "seeds", "samples", "measure"),
    *("value", "low", "high", "against", "difference", "difference_low", "difference_high"),
    *("improvement", "improvement_low", "improvement_high", "seeds_needed", "command"),
)

NONE = "—"

AGAINST = "against "

AT_THE_END = "reward at the end"
"""Name of the reward where there are several turns."""

IN_TERMINALS = ("arm", "seeds", "reward", AT_THE_END, MEASURES["tests_passed"])
"""Columns that a terminal has room for, beside the difference."""


def write_leaderboard(leaderboard: Leaderboard, output: Path) -> None:
    """Write `leaderboard.csv` and `leaderboard.md` into the suite's folder."""
    write_csv(output / "leaderboard.csv", CSV_COLUMNS, _csv_lines(leaderboard))
    write_atomically(output / "leaderboard.md", to_markdown(leaderboard))


def _csv_lines(leaderboard: Leaderboard) -> Iterator[list[Any]]:
    """Yield a line for each arm and measure."""
    for table in leaderboard.tables:
        data = f"{table.data['name']} {table.data['split']}"
        about = [table.environment, data, table.data["stand_in"], table.tasks]
        for line in table.lines:
            for measure, estimate in line.estimates.items():
                comparison = line.comparisons.get(measure)
                yield [
                    *about,
                    *(line.name, line.method, len(line.seeds), line.samples, measure),
                    *_numbers(estimate),
                    *(
                        [line.against, *_comparison_numbers(comparison)]
                        if comparison
                        else [None] * 8
                    ),
                    line.command,
                ]


def _numbers(estimate: Estimate) -> list[float | None]:
    return [estimate.value, estimate.low, estimate.high]


def _comparison_numbers(comparison: MethodComparison) -> list[Any]:
    return [
        *_numbers(comparison.difference),
        *_numbers(comparison.improvement),
        comparison.seeds_needed,
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
    parts.append(
        "\n".join([*notes, f"Made by `{leaderboard.command}`; a row alone with `--only NAME`."])
    )
    return "\n\n".join(parts) + "\n"


NOTES = (
    "In brackets: 95 % intervals over tasks and seeds.",
    "Differences are paired by task; P(better) is how likely a seed beats one of the other on a task.",
)


def table_notes(table: LeaderboardTable) -> list[str]:
    """Return the notes below a table."""
    notes = list(NOTES)
    if table.several_turns:
        notes.append("The reward at the end is that of an episode's last turn.")
    if "seeds needed" in table_cells(table)[0]:
        notes.append(experiments.SEEDS_NEEDED_NOTE)
    return notes


def unfinished_lines(leaderboard: Leaderboard) -> list[str]:
    """Return the jobs that are in no table, failed or not run yet, in words."""
    return [
        f"{word}: {'; '.join(job.name for job in jobs)}."
        for word, jobs in (
            ("Failed", leaderboard.failed),
            ("Not measured yet", leaderboard.missing),
        )
        if jobs
    ]


def table_title(table: LeaderboardTable) -> str:
    """Describe the problems of a table."""
    data = table.data
    text = f"{table.environment}, {table.tasks} problems ({data['name']} {data['split']}"
    samples = {line.samples for line in table.lines}
    times = (
        "one episode" if samples == {1} else f"{' or '.join(map(str, sorted(samples)))} episodes"
    )
    return f"{text}{', bundled stand-in' * data['stand_in']}), {times} of each and seed"


def table_cells(table: LeaderboardTable) -> tuple[list[str], list[list[str]]]:
    """Return head and rows of a table as text, without empty columns."""
    differences, improvements, seeds = zip(
        *(_compared_cells(line, table.against) for line in table.lines), strict=True
    )
    columns: dict[str, Sequence[str]] = {
        "arm": [line.name for line in table.lines],
        "seeds": [_seeds_cell(line) for line in table.lines],
        AT_THE_END if table.several_turns else MEASURES[REWARD]: [
            _value_cell(line, REWARD) for line in table.lines
        ],
        f"{AGAINST}{table.against}": differences,
        "P(better)": improvements,
        "seeds needed": seeds,
        **{
            words: [_value_cell(line, measure) for line in table.lines]
            for measure, words in MEASURES.items()
            if measure != REWARD
        },
    }
    nonempty = {name: cells for name, cells in columns.items() if set(cells) != {NONE}}
    return list(nonempty), [list(row) for row in zip(*nonempty.values(), strict=True)]


def format_estimate(estimate: Estimate, *, sign: bool = False) -> str:
    """Format an estimate, as in "1.39 (1.21 to 1.57)", or say that there was nothing to resample."""
    if estimate.low is not None and estimate.low == estimate.high:
        return f"{number(estimate.value, sign=sign)} (all equal)"
    return experiments.format_estimate(estimate, sign=sign)


def _seeds_cell(line: LeaderboardRow) -> str:
    count = len(line.seeds)
    return str(count) if count == line.planned else f"{count} of {line.planned}"


def _value_cell(line: LeaderboardRow, measure: str) -> str:
    estimate = line.estimates.get(measure)
    return NONE if estimate is None else format_estimate(estimate)


def _compared_cells(line: LeaderboardRow, usual: str) -> tuple[str, str, str]:
    """Format the difference of the reward, with the line that it is against unless that is the usual one.

    Returns:
        The difference, the probability of improvement, and the number of seeds needed.
    """
    comparison = line.comparisons.get(REWARD)
    if comparison is None:
        return NONE, NONE, NONE
    suffix = "" if line.against == usual else f" {AGAINST}{line.against}"
    return (
        f"{format_estimate(comparison.difference, sign=True)}{suffix}",
        experiments.format_estimate(comparison.improvement),
        experiments.seeds_needed(comparison),
    )


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
