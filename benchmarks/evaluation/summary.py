"""The numbers of an evaluation with their intervals: as JSON, as CSV and as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from llm_decpomdp.benchmarks.evaluation.folder import Evaluation
from llm_decpomdp.benchmarks.evaluation.measures import REWARD, is_share
from llm_decpomdp.benchmarks.evaluation.statistics import (
    Estimate,
    bootstrap,
    interquartile_mean,
    share,
)
from llm_decpomdp.utils.storage import write_atomically, write_csv

IQM = "last/reward_iqm"


def overall(found: Evaluation) -> dict[str, Estimate]:
    """Every measure over all tasks, which are the units of its interval.

    A measure counts the tasks that have it: the third turn's those that reached a third turn.
    """
    estimates = {}
    for measure in found.values:
        estimates[measure] = _estimate(measure, list(found.means(measure).values()))
        if measure == REWARD:
            ends = list(found.means(measure).values())
            estimates[IQM] = bootstrap(ends, interquartile_mean)
    for k in found.manifest["k"]:
        if values := list(found.pass_at_k(k).values()):  # none if too many episodes failed
            estimates[f"pass@{k}"] = _estimate(f"pass@{k}", values)
    return estimates


def of_task(found: Evaluation, task: str) -> dict[str, Estimate]:
    """Every measure of one task, with its samples as the units; pass@k has no interval."""
    estimates = {
        measure: _estimate(measure, of_tasks[task])
        for measure, of_tasks in found.values.items()
        if task in of_tasks
    }
    for k in found.manifest["k"]:
        if task in (of_tasks := found.pass_at_k(k)):
            samples = len(found.passes[task])
            estimates[f"pass@{k}"] = Estimate(of_tasks[task], None, None, samples)
    return estimates


def _estimate(measure: str, values: Sequence[float]) -> Estimate:
    return share(values) if is_share(measure) else bootstrap(values)


def summary(found: Evaluation) -> dict[str, Any]:
    """The content of `summary.json`."""
    return {
        "tasks": len(found.tasks),
        "samples": found.samples,
        "episodes": found.episodes,
        "failed": len(found.failures),
        "about": found.manifest["identity"]["about"],
        "overall": {name: asdict(one) for name, one in overall(found).items()},
        "of_task": {
            task: {name: asdict(one) for name, one in of_task(found, task).items()}
            for task in found.tasks
        },
        "seconds": dict(found.seconds),
        "seconds_per_episode": {name: s / found.episodes for name, s in found.seconds.items()},
    }


def write_summary(found: Evaluation) -> None:
    """Write `summary.json`, `summary.csv` and `tasks.csv` into the evaluation's folder."""
    content = summary(found)
    write_atomically(found.folder / "summary.json", json.dumps(content, indent=2) + "\n")
    columns = ["value", "low", "high", "units"]
    lines = [[name, *(one[c] for c in columns)] for name, one in content["overall"].items()]
    write_csv(found.folder / "summary.csv", ["measure", *columns], lines)
    names = list(content["overall"])
    names.remove(IQM)
    tasks = [
        [task, *(of.get(name, {}).get("value") for name in names)]
        for task, of in content["of_task"].items()
    ]
    write_csv(found.folder / "tasks.csv", ["task", *names], tasks)


def table(found: Evaluation) -> Table:
    """The overall measures for a terminal."""
    estimates = overall(found)
    many = f"{len(found.tasks)} tasks, {found.samples} samples of each"
    if found.failures:
        many += f", {len(found.failures)} episodes failed"
    shown = Table(title=f"{found.manifest['environment']}: {many}", title_justify="left")
    for column in ("measure", "mean", "95 % interval", "tasks"):
        shown.add_column(column, justify="left" if column == "measure" else "right")
    several_turns = max(found.means("turns").values()) > 1
    for name in sorted((n for n in estimates if _is_shown(n, several_turns)), key=_order):
        one = estimates[name]
        if name.startswith("refused/") and one.value == 0:
            continue
        shown.add_row(name, number(one.value), interval(one), str(one.units))
    for name, spent in found.seconds.items():
        shown.add_row(f"seconds/{name}", number(spent / found.episodes), "", "")
    return shown


def _is_shown(measure: str, several_turns: bool) -> bool:
    """Whether the table has room for a measure: components at the end only, and turns where there are several."""
    if "reward/" in measure:
        return measure.startswith("last/")
    return several_turns or not measure.startswith(("turn", "reward_mean", "solved"))


def _order(measure: str) -> tuple[int, str]:
    """What people look at first: the end of episodes, then all turns, then each, then costs."""
    groups: Mapping[str, int] = {"last": 0, "pass@": 1, "tests": 2, "all_tests": 2, "cooper": 3}
    first = next((rank for start, rank in groups.items() if measure.startswith(start)), 4)
    costs = ("tok", "prompt_tok", "trunc", "refused")
    late = 5 if measure.startswith("turn_") else 6 if measure.startswith(costs) else first
    return late, measure


def number(value: float) -> str:
    """Three decimals, or one of large numbers."""
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"


def interval(one: Estimate) -> str:
    """Such as "0.200 to 0.400", or why there is none."""
    if one.low is None or one.high is None:
        return "one task"
    if one.low == one.high:
        return "all equal"
    return f"{number(one.low)} to {number(one.high)}"


def told(one: Estimate) -> str:
    """Such as "0.300 (0.200 to 0.400)", or the number alone where there is no interval."""
    return number(one.value) + (f" ({interval(one)})" if one.low is not None else "")
