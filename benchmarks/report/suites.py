"""The report of a suite: its league, and below it the panels of its trainings and evaluations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment
from llm_decpomdp.benchmarks.report.document import opening, sections
from llm_decpomdp.benchmarks.report.elements.page import box, page, tag
from llm_decpomdp.benchmarks.report.layout import PANELS, Panel, placed
from llm_decpomdp.benchmarks.report.panels.league import league_tables
from llm_decpomdp.benchmarks.report.panels.provenance import data_table, details
from llm_decpomdp.benchmarks.runs.results import read_results
from llm_decpomdp.benchmarks.suites.job import is_done, read_status
from llm_decpomdp.benchmarks.suites.league import League, job_folders, read_league, read_suite
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
    """The cells that have something done: their evaluations, or what is below these."""
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
    shown: list[tuple[Panel, str]] = []
    for panel in PANELS:
        if panel.anchor == LEAGUE:
            top = Panel(LEAGUE, "League", "League", lambda _: "", "wide")
            shown.append((top, league_tables(league)))
            continue
        found = (trainings or evaluations) if panel.anchor in OF_TRAININGS else evaluations
        shown.append((placed(panel, found), panel.draw(found)))
    head = [tag("h1", f"Suite {league.suite}"), tag("p", league.description)]
    yield from sections(
        [*head, *opening([*trainings, *evaluations])],
        [(panel, html) for panel, html in shown if html],
        _origins(evaluations),
        "Made from suite.json and the folders of the suite's trainings and evaluations alone.",
    )


def _origins(evaluations: Sequence[Experiment]) -> Iterator[str]:
    first = evaluations[0].runs[0]
    yield from data_table(first)
    yield box("div", list(details(first)))
