"""A suite's result as `leaderboard.csv` (all numbers), as `leaderboard.md` (to paste) and for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from llm_decpomdp.benchmarks.evaluation import experiments
from llm_decpomdp.benchmarks.evaluation.play import REWARD
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, MethodComparison
from llm_decpomdp.benchmarks.suites.leaderboard import (
    MEASURES,
    Leaderboard,
    LeaderboardRow,
    LeaderboardTable,
)
from llm_decpomdp.utils.storage import write_atomically, write_csv
from llm_decpomdp.utils.text import number

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
        notes.append(experiments.NEEDED)
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
        "seeds": [_seeds(line) for line in table.lines],
        AT_THE_END if table.several_turns else MEASURES[REWARD]: [
            _value(line, REWARD) for line in table.lines
        ],
        f"{AGAINST}{table.against}": differences,
        "P(better)": improvements,
        "seeds needed": seeds,
        **{
            words: [_value(line, measure) for line in table.lines]
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


def _seeds(line: LeaderboardRow) -> str:
    count = len(line.seeds)
    return str(count) if count == line.planned else f"{count} of {line.planned}"


def _value(line: LeaderboardRow, measure: str) -> str:
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
