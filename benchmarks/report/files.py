"""Tables as CSV and figures as SVG and PNG, for papers and spreadsheets."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from llm_decpomdp.benchmarks.config.extras import installed
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment
from llm_decpomdp.benchmarks.report.elements.charts import (
    component_charts,
    component_lists,
    learning_curve,
    save,
    task_map,
)
from llm_decpomdp.benchmarks.report.panels.tasks import rewards_by_task
from llm_decpomdp.benchmarks.runs.results import Results, Row, Score
from llm_decpomdp.utils.storage import write_csv

logger = logging.getLogger(__name__)


def write_files(experiments: Sequence[Experiment], folder: Path) -> None:
    """Write everything into a folder.

    - `metrics.csv`: every row of `metrics.jsonl`, with its run, seed and configuration.
    - `episodes.csv`: one line for each row of `episodes.jsonl`, in numbers.
    - `learning`, `components`, `tasks`: the figures, `.svg` and `.png`; those that have something to show.
    """
    folder.mkdir(parents=True, exist_ok=True)
    runs = [(experiment, run) for experiment in experiments for run in experiment.runs]
    metrics = [
        _run_identity(*of) | row for of in runs for row in (*of[1].train, *of[1].evaluations)
    ]
    _write(folder / "metrics.csv", metrics)
    scores = [_run_identity(*of) | _numbers(score) for of in runs for score in of[1].scores]
    _write(folder / "episodes.csv", scores)
    if installed("matplotlib") is None:
        logger.warning(
            "only the tables are written: figures need matplotlib, which is not installed"
        )
        return
    save(learning_curve(experiments), folder)
    if component_lists(experiments)[0]:
        save(component_charts(experiments), folder)
    columns = rewards_by_task(experiments)
    if columns:
        save(task_map(columns), folder)


def _write(path: Path, rows: Sequence[Row]) -> None:
    """Write a line for each row, under all their keys."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    write_csv(path, columns, ([row.get(key) for key in columns] for row in rows))


def _run_identity(experiment: Experiment, run: Results) -> Row:
    seed = run.manifest.get("seed")
    return {"configuration": experiment.name, "run": run.path.name, "seed": seed}


def _numbers(score: Score) -> Row:
    return {
        **{key: getattr(score, key) for key in ("phase", "update", "task", "reward", "solved")},
        **{f"reward/{name}": value for name, value in score.points.items()},
        **{f"turn_{k}": value for k, value in enumerate(score.turns, 1)},
    }
