"""The report of a suite: its leaderboard, and below it the panels of its trainings and evaluations."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

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
from llm_decpomdp.benchmarks.report.page import box, details_block, listing, page, table, tag
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

OF_TRAININGS = ("learning", "components", "diagnostics", "costs")
"""Panels that show trainings, if there are any; the others show the evaluations after them."""


def write_suite_report(output: Path, path: Path | None = None) -> Path:
    """Write the page of a suite, by default `report.html` in its folder `output`.

    Raises:
        ConfigError: If the folder holds no suite, or no finished job.
    """
    leaderboard, cells = read_leaderboard(output), read_suite(output)["cells"]
    evaluations = list(_experiments(output, cells, ""))
    if not evaluations:
        raise ConfigError(
            f"no job of the suite in {output} is finished yet: go on with {leaderboard.command}"
        )
    trainings = list(_experiments(output, cells, "training"))
    target = path or output / "report.html"
    first = evaluations[0].runs[0]
    panels = []
    for panel in PANELS:
        # A suite has no single gain, so its leaderboard takes the place of the summary.
        if panel.anchor == "summary":
            title = "Leaderboard"

            def draw(_: Sequence[Experiment]) -> str:
                runs = _runs_block(output, cells, target.parent)
                return "\n".join([*_leaderboard_blocks(leaderboard), runs])

            panel = Panel(panel.anchor, title, title, draw, "wide")
        of_trainings = trainings and panel.anchor in OF_TRAININGS
        panels.append((panel, trainings if of_trainings else evaluations))
    title = f"Suite {leaderboard.suite}"
    body = sections(
        [tag("h1", title), tag("p", leaderboard.description), *opening([*trainings, *evaluations])],
        panels,
        [*data_table(first), box("div", list(details(first)))],
        "Generated from suite.json and the folders of the suite's trainings and evaluations.",
    )
    write_atomically(target, page(title, [body]))
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


def _leaderboard_blocks(leaderboard: Leaderboard) -> Iterator[str]:
    for number, entry in enumerate(leaderboard.tables, 1):
        yield from _table_blocks(entry, number)
    for text in unfinished_lines(leaderboard):
        yield tag("p", text, "banner")
    for job in leaderboard.failed:
        note = f"failed; the whole log is in {job.folder}/log.txt"
        yield details_block(job.name, listing(job.error), note=note)


def _runs_block(output: Path, cells: Sequence[Mapping[str, Any]], place: Path) -> str:
    """Return a table of links to the folder of every job, or its report, from a page in `place`."""
    rows = []
    for cell in cells:
        for seed, folder in job_folders(output, cell):
            page = folder / "training" / "report.html"
            # `Path.relative_to` takes no way up before Python 3.12.
            address = os.path.relpath(page if page.is_file() else folder, place)
            link = Markup('<a href="{}">{}</a>').format(quote(address), folder.name)
            rows.append((str(cell["name"]), str(seed), link if folder.is_dir() else "—"))
    return details_block("Runs", table("jobs", ("arm", "seed", "folder"), rows))


def _table_blocks(entry: LeaderboardTable, number: int) -> Iterator[str]:
    yield tag("h3", table_title(entry))
    head, rows = table_cells(entry)
    yield table(f"leaderboard-{number}", head, rows)
    notes = table_notes(entry)
    if any(len(line.seeds) == 1 for line in entry.lines):
        notes.append("The interval of a single seed covers only the choice of tasks.")
    # The reward of a team with other agents is not compared, as it has another maximum.
    names = [
        line.name
        for line in entry.lines
        if line.against is not None and REWARD not in line.comparisons
    ]
    if names:
        notes.append(
            f"Teams of other agents ({', '.join(names)}) have another maximum reward: compare the tests passed."
        )
    yield tag("p", " ".join(notes), "small")
    commands = "\n".join(line.command for line in entry.lines)
    yield details_block(
        "Commands", listing(commands), note="one for each row, which measures it again"
    )
