"""The panel of cross-play: teams of agents from different runs, if their evaluations are on the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from llm_decpomdp.benchmarks.analysis.crossplay import CrossPlay, Matrix, read
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment, format_estimate
from llm_decpomdp.benchmarks.evaluation.play import REWARD
from llm_decpomdp.benchmarks.report.elements.page import Cell, box, heat_cell, link, table, tag

WORDS = {REWARD: "reward", "pass@1": "pass@1", "tests_passed": "tests passed"}
"""Names of the measures of a cross-play."""


def crossplay(experiments: Sequence[Experiment]) -> str:
    """Draw the matrices of the cross-plays that the shown evaluations are cells of."""
    paths = [run.path for experiment in experiments for run in experiment.runs]
    places = {path: number for number, path in enumerate(paths)}
    blocks: list[str] = []
    for folder in dict.fromkeys(path.resolve().parents[1] for path in paths):
        play = read(folder)
        if play is not None:
            cells = {
                path.name: n for path, n in places.items() if path.resolve().parents[1] == folder
            }
            blocks += _blocks(play, folder, cells)
    return "\n".join(blocks)


def _blocks(play: CrossPlay, folder: Path, numbers: Mapping[str, int]) -> Iterator[str]:
    yield tag(
        "p",
        f"{folder.name}: {play.agent} is from the column's run, all others are from the row's. The diagonal is "
        "self-play. Choose a number to read what the agents wrote.",
    )
    for measure, matrix in play.matrices.items():
        name = WORDS[measure]
        yield box("div", [_table(play, measure, matrix, numbers)], "heat")
        yield tag(
            "p",
            f"{name}: self-play {format_estimate(matrix.self_play)}, cross-play "
            f"{format_estimate(matrix.cross_play)}; the difference is "
            f"{format_estimate(matrix.difference, sign=True)}, paired by run and task.",
        )


def _table(play: CrossPlay, measure: str, matrix: Matrix, numbers: Mapping[str, int]) -> str:
    top = max(estimate.value for columns in matrix.cells.values() for estimate in columns.values())
    rows = []
    for row, columns in matrix.cells.items():
        cells: list[str | Cell] = [row]
        for column, estimate in columns.items():
            place, text = numbers.get(f"{row}+{column}"), format_estimate(estimate)
            cells.append(
                heat_cell(text if place is None else link(text, run=place), estimate.value, top)
            )
        rows.append(cells)
    return table(measure.replace("/", "_"), [WORDS[measure], *play.teams], rows)
