"""The report of a suite: its league, and below it the panels of its trainings and evaluations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment
from llm_decpomdp.benchmarks.evaluation.measures import REWARD
from llm_decpomdp.benchmarks.report.document import PANELS, Panel, opening, sections
from llm_decpomdp.benchmarks.report.elements.page import box, folded, listing, page, table, tag
from llm_decpomdp.benchmarks.report.panels.provenance import data_table, details
from llm_decpomdp.benchmarks.runs.results import read_results
from llm_decpomdp.benchmarks.suites.job import is_done, read_status
from llm_decpomdp.benchmarks.suites.league import (
    League,
    LeagueTable,
    job_folders,
    read_league,
    read_suite,
)
from llm_decpomdp.benchmarks.suites.league_files import cells_of, notes_of, title_of, unfinished
from llm_decpomdp.utils.storage import RunFolder, write_atomically

OF_TRAININGS = ("learning", "components", "costs")
"""The panels that show trainings, if there are any; the others show the evaluations after them."""

LEAGUE = "summary"
"""The panel whose place the league takes."""


def write_suite_report(output: Path, path: Path | None = None) -> Path:
    """Write the page of a suite from its folder alone.

    Args:
        output: The suite's folder.
        path: Where the page goes; by default `report.html` in the folder.

    Raises:
        ConfigError: If the folder holds no suite, or nothing was measured yet.
    """
    league, cells = read_league(output), read_suite(output)["cells"]
    evaluations = list(_experiments(output, cells, ""))
    if not evaluations:
        raise ConfigError(
            f"nothing of the suite in {output} was measured yet: go on with {league.command}"
        )
    trainings = list(_experiments(output, cells, "training"))
    target = path or output / "report.html"
    blocks = _blocks(league, evaluations, trainings)
    write_atomically(target, page(f"Suite {league.suite}", blocks))
    return target


def _experiments(
    output: Path, cells: Sequence[Mapping[str, Any]], below: str
) -> Iterator[Experiment]:
    """Yield the cells with finished jobs: their evaluations, or the trainings below these."""
    for cell in cells:
        folders = [
            folder / below
            for _, folder in job_folders(output, cell)
            if is_done(read_status(folder), cell) and (folder / below).is_dir()
        ]
        if folders:
            runs = tuple(read_results(RunFolder(folder)) for folder in folders)
            yield Experiment(str(cell["name"]), runs)


def _blocks(
    league: League, evaluations: Sequence[Experiment], trainings: Sequence[Experiment]
) -> Iterator[str]:
    panels = [
        (panel, (trainings or evaluations) if panel.anchor in OF_TRAININGS else evaluations)
        for panel in PANELS
    ]
    top = Panel(LEAGUE, "League", "League", lambda _: _league_tables(league), "wide")
    head = [tag("h1", f"Suite {league.suite}"), tag("p", league.description)]
    yield from sections(
        [*head, *opening([*trainings, *evaluations])],
        [(top if panel.anchor == LEAGUE else panel, shown) for panel, shown in panels],
        _origins(evaluations),
        "Made from suite.json and the folders of the suite's trainings and evaluations alone.",
    )


def _origins(evaluations: Sequence[Experiment]) -> Iterator[str]:
    first = evaluations[0].runs[0]
    yield from data_table(first)
    yield box("div", list(details(first)))


def _league_tables(league: League) -> str:
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
    if any(len(line.seeds) == 1 for line in table_.lines):
        notes.append("The interval of a single seed covers the choice of tasks alone.")
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
