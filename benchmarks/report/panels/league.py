"""The panel of a suite: its league tables, the command of each row, and failures."""

from __future__ import annotations

from collections.abc import Iterator

from llm_decpomdp.benchmarks.evaluation.measures import REWARD
from llm_decpomdp.benchmarks.report.elements.page import folded, listing, table, tag
from llm_decpomdp.benchmarks.report.panels.outcome import MANY_SEEDS
from llm_decpomdp.benchmarks.suites.league import League, LeagueTable
from llm_decpomdp.benchmarks.suites.league_files import cells_of, notes_of, title_of, unfinished


def league_tables(league: League) -> str:
    """Draw the tables with their explanations."""
    blocks = [
        block for number, entry in enumerate(league.tables) for block in _table(entry, number)
    ]
    return "\n".join([*blocks, *_failures(league)])


def _table(table_: LeagueTable, number: int) -> Iterator[str]:
    yield tag("h3", title_of(table_))
    head, rows = cells_of(table_)
    yield table(f"league-{number + 1}", head, rows)
    notes = notes_of(table_)
    if any(len(line.seeds) < MANY_SEEDS for line in table_.lines):
        notes.append(f"Intervals over fewer than {MANY_SEEDS} seeds are too narrow.")
    names = [line.name for line in table_.lines if _of_another_team(line.name, table_)]
    if names:
        notes.append(
            f"Teams of other agents ({', '.join(names)}) have another maximum: compare them by the tests passed."
        )
    yield tag("p", " ".join(notes), "small")
    commands = "\n".join(line.command for line in table_.lines)
    yield folded("Commands", listing(commands), note="what measures each row again, in their order")


def _of_another_team(name: str, league: LeagueTable) -> bool:
    (line,) = (line for line in league.lines if line.name == name)
    return line.against is not None and REWARD not in line.comparisons


def _failures(league: League) -> Iterator[str]:
    for text in unfinished(league):
        yield tag("p", text, "banner")
    for job in league.failed:
        yield folded(job.name, listing(job.error), note=f"failed; {job.folder}/log.txt has more")
