"""A suite's result as `league.csv` (all numbers), as `league.md` (a table to paste) and for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from llm_decpomdp.benchmarks.evaluation import estimates
from llm_decpomdp.benchmarks.evaluation.measures import REWARD
from llm_decpomdp.benchmarks.evaluation.statistics import Comparison, Estimate
from llm_decpomdp.benchmarks.suites.league import MEASURES, League, LeagueTable, Line
from llm_decpomdp.utils.storage import write_atomically, write_csv
from llm_decpomdp.utils.text import number

CSV_COLUMNS = (
    *("environment", "data", "stand_in", "tasks", "cell", "method", "seeds", "samples", "measure"),
    *("value", "low", "high", "against", "difference", "difference_low", "difference_high"),
    *("improvement", "improvement_low", "improvement_high", "seeds_needed", "command"),
)

NONE = "—"

AGAINST = "against "

AT_THE_END = "reward at the end"
"""Name of the reward where there are several turns."""

IN_TERMINALS = ("cell", "seeds", "reward", AT_THE_END, MEASURES["tests_passed"])
"""Columns that a terminal has room for, beside the difference."""


def write_league(league: League, output: Path) -> None:
    """Write `league.csv` and `league.md` into the suite's folder."""
    write_csv(output / "league.csv", CSV_COLUMNS, _csv_lines(league))
    write_atomically(output / "league.md", as_markdown(league))


def _csv_lines(league: League) -> Iterator[list[Any]]:
    """Yield a line for each cell and measure."""
    for table in league.tables:
        data = f"{table.data['name']} {table.data['split']}"
        about = [table.environment, data, table.data["stand_in"], table.tasks]
        for line in table.lines:
            for measure, estimate in line.estimates.items():
                comparison = line.comparisons.get(measure)
                yield [
                    *about,
                    *(line.name, line.method, len(line.seeds), line.samples, measure),
                    *_numbers(estimate),
                    *([line.against, *_compared(comparison)] if comparison else [None] * 8),
                    line.command,
                ]


def _numbers(estimate: Estimate) -> list[float | None]:
    return [estimate.value, estimate.low, estimate.high]


def _compared(comparison: Comparison) -> list[Any]:
    return [
        *_numbers(comparison.difference),
        *_numbers(comparison.improvement),
        comparison.seeds_needed,
    ]


def as_markdown(league: League) -> str:
    """Return a table for each set of problems, with the command that made it."""
    parts = []
    for table in league.tables:
        head, rows = cells_of(table)
        lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
        grid = "\n".join(f"| {' | '.join(row)} |" for row in lines)
        parts.append(f"**{title_of(table)}**\n\n{grid}")
    notes = [*dict.fromkeys(note for table in league.tables for note in notes_of(table))]
    notes += unfinished(league)
    parts.append(
        "\n".join([*notes, f"Made by `{league.command}`; a row alone with `--only NAME`."])
    )
    return "\n\n".join(parts) + "\n"


NOTES = (
    "In brackets: 95 % intervals over tasks and seeds.",
    "Differences are paired by task; P(better) is how likely a seed beats one of the other on a task.",
)


def notes_of(table: LeagueTable) -> list[str]:
    """Return the notes below a table."""
    notes = list(NOTES)
    if table.several_turns:
        notes.append("The reward at the end is that of an episode's last turn.")
    if "seeds needed" in cells_of(table)[0]:
        notes.append(estimates.NEEDED)
    return notes


def unfinished(league: League) -> list[str]:
    """Return the jobs that are in no table, failed or not run yet, in words."""
    return [
        f"{word}: {'; '.join(job.name for job in jobs)}."
        for word, jobs in (("Failed", league.failed), ("Not measured yet", league.missing))
        if jobs
    ]


def title_of(table: LeagueTable) -> str:
    """Describe the problems of a table."""
    data = table.data
    text = f"{table.environment}, {table.tasks} problems ({data['name']} {data['split']}"
    samples = {line.samples for line in table.lines}
    times = (
        "one episode" if samples == {1} else f"{' or '.join(map(str, sorted(samples)))} episodes"
    )
    return f"{text}{', bundled stand-in' * data['stand_in']}), {times} of each and seed"


def cells_of(table: LeagueTable) -> tuple[list[str], list[list[str]]]:
    """Return head and rows of a table as text, without empty columns."""
    differences, improvements, needed = zip(
        *(_compared_cells(line, table.against) for line in table.lines), strict=True
    )
    columns: dict[str, Sequence[str]] = {
        "cell": [line.name for line in table.lines],
        "seeds": [_seeds(line) for line in table.lines],
        AT_THE_END if table.several_turns else MEASURES[REWARD]: [
            _value(line, REWARD) for line in table.lines
        ],
        f"{AGAINST}{table.against}": differences,
        "P(better)": improvements,
        "seeds needed": needed,
        **{
            words: [_value(line, measure) for line in table.lines]
            for measure, words in MEASURES.items()
            if measure != REWARD
        },
    }
    nonempty = {name: cells for name, cells in columns.items() if set(cells) != {NONE}}
    return list(nonempty), [list(row) for row in zip(*nonempty.values(), strict=True)]


def shown(estimate: Estimate, *, sign: bool = False) -> str:
    """Format an estimate, as in "1.39 (1.21 to 1.57)", or say that there was nothing to resample."""
    if estimate.low is not None and estimate.low == estimate.high:
        return f"{number(estimate.value, sign=sign)} (all equal)"
    return estimates.shown(estimate, sign=sign)


def _seeds(line: Line) -> str:
    count = len(line.seeds)
    return str(count) if count == line.planned else f"{count} of {line.planned}"


def _value(line: Line, measure: str) -> str:
    estimate = line.estimates.get(measure)
    return NONE if estimate is None else shown(estimate)


def _compared_cells(line: Line, usual: str) -> tuple[str, str, str]:
    """Format the difference of the reward, with the line that it is against unless that is the usual one.

    Returns:
        The difference, the probability of improvement, and the number of seeds needed.
    """
    comparison = line.comparisons.get(REWARD)
    if comparison is None:
        return NONE, NONE, NONE
    suffix = "" if line.against == usual else f" {AGAINST}{line.against}"
    return (
        f"{shown(comparison.difference, sign=True)}{suffix}",
        estimates.shown(comparison.improvement),
        estimates.seeds_needed(comparison),
    )


def as_tables(league: League) -> Sequence[Table]:
    """Return the tables for a terminal, which has no room for all columns."""
    tables = []
    for table in league.tables:
        head, rows = cells_of(table)
        indices = [
            i for i, name in enumerate(head) if name in IN_TERMINALS or name.startswith(AGAINST)
        ]
        grid = Table(title=title_of(table), title_justify="left")
        for i in indices:
            grid.add_column(head[i], justify="right" if i else "left")
        for row in rows:
            grid.add_row(*(row[i] for i in indices))
        tables.append(grid)
    return tables
