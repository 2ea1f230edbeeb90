"""The report of a suite: its leaderboard, and below it the panels of its trainings and evaluations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment
from llm_decpomdp.benchmarks.evaluation.play import REWARD
from llm_decpomdp.benchmarks.report.document import (
    PANELS,
    Panel,
    data_table,
    details,
    opening,
    sections,
)
from llm_decpomdp.benchmarks.report.page import (
    box,
    details_block,
    listing,
    page,
    table,
    tag,
)
from llm_decpomdp.benchmarks.runs.results import read_results
from llm_decpomdp.benchmarks.suites.job import is_done, read_status
from llm_decpomdp.benchmarks.suites.leaderboard import (
    Leaderboard,
    LeaderboardTable,
    job_folders,
    read_leaderboard,
    read_suite,
    table_cells,
    table_notes,
    table_title,
    unfinished_lines,
)
from llm_decpomdp.utils.storage import RunFolder, write_atomically

OF_TRAININGS = ("learning", "components", "costs")
"""The panels that show trainings, if there are any; the others show the evaluations after them."""

LEADERBOARD = "summary"
"""The panel whose place the leaderboard takes."""


def write_suite_report(output: Path, path: Path | None = None) -> Path:
    """Write the page of a suite from its folder alone.

    Args:
        output: The suite's folder.
        path: Where the page goes; by default `report.html` in the folder.

    Raises:
        ConfigError: If the folder holds no suite, or nothing was measured yet.
    """
    leaderboard, cells = read_leaderboard(output), read_suite(output)["cells"]
    evaluations = list(_experiments(output, cells, ""))
    if not evaluations:
        raise ConfigError(
            f"nothing of the suite in {output} was measured yet: go on with {leaderboard.command}"
        )
    trainings = list(_experiments(output, cells, "training"))
    target = path or output / "report.html"
    body = _body(leaderboard, evaluations, trainings)
    write_atomically(target, page(f"Suite {leaderboard.suite}", [body]))
    return target


def _experiments(
    output: Path, cells: Sequence[Mapping[str, Any]], below: str
) -> Iterator[Experiment]:
    """Yield the arms with finished jobs: their evaluations, or the trainings below these."""
    for cell in cells:
        folders = [
            folder / below
            for _, folder in job_folders(output, cell)
            if is_done(read_status(folder), cell) and (folder / below).is_dir()
        ]
        if folders:
            runs = tuple(read_results(RunFolder(folder)) for folder in folders)
            yield Experiment(str(cell["name"]), runs)


def _body(
    leaderboard: Leaderboard, evaluations: Sequence[Experiment], trainings: Sequence[Experiment]
) -> str:
    panels = [
        (panel, (trainings or evaluations) if panel.anchor in OF_TRAININGS else evaluations)
        for panel in PANELS
    ]
    top = Panel(
        LEADERBOARD,
        "Leaderboard",
        "Leaderboard",
        lambda _: _leaderboard_tables(leaderboard),
        "wide",
    )
    head = [tag("h1", f"Suite {leaderboard.suite}"), tag("p", leaderboard.description)]
    return sections(
        [*head, *opening([*trainings, *evaluations])],
        [(top if panel.anchor == LEADERBOARD else panel, sets) for panel, sets in panels],
        _origins(evaluations),
        "Made from suite.json and the folders of the suite's trainings and evaluations alone.",
    )


def _origins(evaluations: Sequence[Experiment]) -> Iterator[str]:
    first = evaluations[0].runs[0]
    yield from data_table(first)
    yield box("div", list(details(first)))


def _leaderboard_tables(leaderboard: Leaderboard) -> str:
    """Draw the tables with their explanations."""
    blocks = [
        block for number, entry in enumerate(leaderboard.tables) for block in _table(entry, number)
    ]
    return "\n".join([*blocks, *_failures(leaderboard)])


def _table(table_: LeaderboardTable, number: int) -> Iterator[str]:
    yield tag("h3", table_title(table_))
    head, rows = table_cells(table_)
    yield table(f"leaderboard-{number + 1}", head, rows)
    notes = table_notes(table_)
    if any(len(line.seeds) == 1 for line in table_.lines):
        notes.append("The interval of a single seed covers the choice of tasks alone.")
    names = [line.name for line in table_.lines if _has_other_team(line.name, table_)]
    if names:
        notes.append(
            f"Teams of other agents ({', '.join(names)}) have another maximum: compare them by the tests passed."
        )
    yield tag("p", " ".join(notes), "small")
    commands = "\n".join(line.command for line in table_.lines)
    yield details_block(
        "Commands", listing(commands), note="what measures each row again, in their order"
    )


def _has_other_team(name: str, leaderboard: LeaderboardTable) -> bool:
    (line,) = (line for line in leaderboard.lines if line.name == name)
    return line.against is not None and REWARD not in line.comparisons


def _failures(leaderboard: Leaderboard) -> Iterator[str]:
    for text in unfinished_lines(leaderboard):
        yield tag("p", text, "banner")
    for job in leaderboard.failed:
        yield details_block(
            job.name, listing(job.error), note=f"failed; {job.folder}/log.txt has more"
        )
