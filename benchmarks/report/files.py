"""Tables as CSV and figures as SVG and PNG, for papers and spreadsheets."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from llm_decpomdp.benchmarks.config.extras import installed
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment
from llm_decpomdp.benchmarks.report.elements.charts import (
    component_charts,
    learning_curve,
    save,
    task_map,
)
from llm_decpomdp.benchmarks.report.panels.tasks import rewards_by_task
from llm_decpomdp.benchmarks.runs.results import Row, component_names
from llm_decpomdp.utils.storage import write_csv

logger = logging.getLogger(__name__)


def write_files(experiments: Sequence[Experiment], folder: Path) -> None:
    """Write everything into a folder.

    - `metrics.csv`: every row of `metrics.jsonl`, with its run, seed and configuration.
    - `episodes.csv`: one line for each row of `episodes.jsonl`, in numbers.
    - `learning`, `components`, `tasks`: the figures, `.svg` and `.png`; those that have something to show.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows_of in (("metrics", _metrics), ("episodes", _scores)):
        rows = [_named(e, i) | row for e in experiments for i, row in rows_of(e)]
        _write(folder / f"{name}.csv", rows)
    if installed("matplotlib") is None:
        logger.warning(
            "only the tables are written: figures need matplotlib, which is not installed"
        )
        return
    save(learning_curve(experiments), folder)
    every = [row for e in experiments for kind in ("train", "eval") for row in e.rows(kind)]
    if component_names(every)[0]:
        save(component_charts(experiments), folder)
    columns = rewards_by_task(experiments)
    if columns:
        save(task_map(columns), folder)


def _write(path: Path, rows: Sequence[Row]) -> None:
    """Write a line for each row, under all their keys."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    write_csv(path, columns, ([row.get(key) for key in columns] for row in rows))


def _named(experiment: Experiment, index: int) -> dict[str, Any]:
    run = experiment.runs[index]
    name = {"configuration": experiment.name, "run": run.path.name}
    return {**name, "seed": run.manifest.get("seed")}


def _metrics(experiment: Experiment) -> Iterable[tuple[int, Row]]:
    for index, run in enumerate(experiment.runs):
        for row in (*run.train, *run.evaluations):
            yield index, row


def _scores(experiment: Experiment) -> Iterable[tuple[int, Row]]:
    for index, run in enumerate(experiment.runs):
        for score in run.scores:
            yield (
                index,
                {
                    "phase": score.phase,
                    "update": score.update,
                    "task": score.task,
                    "reward": score.reward,
                    "solved": score.solved,
                    **{f"reward/{name}": value for name, value in score.points.items()},
                    **{f"turn_{k}": value for k, value in enumerate(score.turns, 1)},
                },
            )
