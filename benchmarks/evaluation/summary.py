"""The numbers of an evaluation with their intervals: as JSON, as CSV and as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rich.table import Table

from llm_decpomdp.benchmarks.evaluation.folder import Evaluation
from llm_decpomdp.benchmarks.evaluation.measures import REWARD, estimate_of
from llm_decpomdp.benchmarks.evaluation.statistics import (
    Estimate,
    bootstrap,
    interquartile_mean,
)
from llm_decpomdp.utils.storage import write_atomically, write_csv

IQM = "last/reward_iqm"

COMPARED = (REWARD, "last/solved", "pass@1", "tests_passed", "prompt_tokens", "tokens")
"""The measures in the table of several models, as far as there are any."""


def overall(evaluation: Evaluation) -> dict[str, Estimate]:
    """Estimate every measure over all tasks, which are the units of its interval.

    A measure counts the tasks that have it: the third turn's those that reached a third turn.
    """
    estimates = {}
    for measure in evaluation.values:
        means = list(evaluation.means(measure).values())
        estimates[measure] = estimate_of(measure, means)
        if measure == REWARD:
            estimates[IQM] = bootstrap(means, interquartile_mean)
    for k in evaluation.manifest["k"]:
        if values := list(evaluation.pass_at_k(k).values()):  # none if too many episodes failed
            estimates[f"pass@{k}"] = estimate_of(f"pass@{k}", values)
    return estimates


def of_task(evaluation: Evaluation, task: str) -> dict[str, Estimate]:
    """Estimate every measure of one task, with its samples as the units; pass@k has no interval."""
    estimates = {
        measure: estimate_of(measure, of_tasks[task])
        for measure, of_tasks in evaluation.values.items()
        if task in of_tasks
    }
    for k in evaluation.manifest["k"]:
        if task in (of_tasks := evaluation.pass_at_k(k)):
            samples = len(evaluation.passes[task])
            estimates[f"pass@{k}"] = Estimate(of_tasks[task], None, None, samples)
    return estimates


def summary(evaluation: Evaluation) -> dict[str, Any]:
    """Return the content of `summary.json`."""
    return {
        "tasks": len(evaluation.tasks),
        "samples": evaluation.samples,
        "episodes": evaluation.episodes,
        "failed": len(evaluation.failures),
        "about": evaluation.manifest["identity"]["about"],
        "overall": {name: asdict(estimate) for name, estimate in overall(evaluation).items()},
        "of_task": {
            task: {name: asdict(estimate) for name, estimate in of_task(evaluation, task).items()}
            for task in evaluation.tasks
        },
        "seconds": dict(evaluation.seconds),
        "seconds_per_episode": {
            name: s / evaluation.episodes for name, s in evaluation.seconds.items()
        },
    }


def write_summary(evaluation: Evaluation) -> None:
    """Write `summary.json`, `summary.csv` and `tasks.csv` into the evaluation's folder."""
    content = summary(evaluation)
    write_atomically(evaluation.folder / "summary.json", json.dumps(content, indent=2) + "\n")
    columns = ["value", "low", "high", "units"]
    lines = [[name, *(row[c] for c in columns)] for name, row in content["overall"].items()]
    write_csv(evaluation.folder / "summary.csv", ["measure", *columns], lines)
    names = list(content["overall"])
    names.remove(IQM)
    tasks = [
        [task, *(of.get(name, {}).get("value") for name in names)]
        for task, of in content["of_task"].items()
    ]
    write_csv(evaluation.folder / "tasks.csv", ["task", *names], tasks)


def table(evaluation: Evaluation) -> Table:
    """Tabulate the overall measures for a terminal."""
    estimates = overall(evaluation)
    many = f"{len(evaluation.tasks)} tasks, {evaluation.samples} samples of each"
    if evaluation.failures:
        many += f", {len(evaluation.failures)} episodes failed"
    grid = Table(title=f"{evaluation.manifest['environment']}: {many}", title_justify="left")
    for column in ("measure", "mean", "95 % interval", "tasks"):
        grid.add_column(column, justify="left" if column == "measure" else "right")
    several_turns = max(evaluation.means("turns").values()) > 1
    for name in sorted((n for n in estimates if _is_shown(n, several_turns)), key=_order):
        row = estimates[name]
        if name.startswith("refused/") and row.value == 0:
            continue
        grid.add_row(name, number(row.value), interval(row), str(row.units))
    for name, seconds in evaluation.seconds.items():
        grid.add_row(f"seconds/{name}", number(seconds / evaluation.episodes), "", "")
    return grid


def comparison(evaluations: Mapping[str, Evaluation]) -> Table:
    """Tabulate evaluations, a column for each, by the name of its model."""
    estimates = {name: overall(evaluation) for name, evaluation in evaluations.items()}
    first = next(iter(evaluations.values())).manifest
    tasks = f"{len(first['starts'])} tasks, {first['samples']} samples of each"
    table = Table(title=f"{first['environment']}: {tasks}", title_justify="left")
    table.add_column("measure")
    for name in estimates:
        table.add_column(name, justify="right", overflow="fold")
    refusals = dict.fromkeys(key for of in estimates.values() for key in of if "refused/" in key)
    for measure in (*COMPARED, *refusals):
        if any(
            measure in of and (of[measure].value or measure in COMPARED)
            for of in estimates.values()
        ):
            cells = [as_text(of[measure]) if measure in of else "" for of in estimates.values()]
            table.add_row(measure, *cells)
    table.add_row("failed episodes", *(str(len(e.failures)) for e in evaluations.values()))
    return table


def _is_shown(measure: str, several_turns: bool) -> bool:
    """Check whether the table shows a measure: components at the end only, and turns where there are several."""
    if "reward/" in measure:
        return measure.startswith("last/")
    return several_turns or not measure.startswith(("turn", "reward_mean", "solved"))


def _order(measure: str) -> tuple[int, str]:
    """Order measures: the end of episodes first, then all turns, then each, then costs."""
    groups: Mapping[str, int] = {"last": 0, "pass@": 1, "tests": 2, "all_tests": 2, "cooper": 3}
    first = next((rank for start, rank in groups.items() if measure.startswith(start)), 4)
    costs = ("tok", "prompt_tok", "trunc", "refused")
    late = 5 if measure.startswith("turn_") else 6 if measure.startswith(costs) else first
    return late, measure


def number(value: float) -> str:
    """Write a number with three decimals, or one with a single decimal where it is large."""
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"


def interval(estimate: Estimate) -> str:
    """Write an interval, such as "0.200 to 0.400", or the reason why there is none."""
    if estimate.low is None or estimate.high is None:
        return "one task"
    if estimate.low == estimate.high:
        return "all equal"
    return f"{number(estimate.low)} to {number(estimate.high)}"


def as_text(estimate: Estimate) -> str:
    """Write an estimate, such as "0.300 (0.200 to 0.400)", or the number alone where there is no interval."""
    return number(estimate.value) + (f" ({interval(estimate)})" if estimate.low is not None else "")


def read_estimates(path: Path) -> Any:
    """Read a JSON file that holds estimates, at whatever depth, as `asdict` writes them."""
    return json.loads(path.read_text(encoding="utf-8"), object_hook=_as_estimate)


def _as_estimate(content: dict[str, Any]) -> dict[str, Any] | Estimate:
    names = {field.name for field in fields(Estimate)}
    return Estimate(**content) if content.keys() == names else content
