"""The folder of an evaluation, read again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rich.table import Table

from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.evaluation.play import (
    REWARD,
    episode_passes,
    estimate_measure,
    measures,
)
from llm_decpomdp.benchmarks.evaluation.statistics import (
    Estimate,
    bootstrap,
    interquartile_mean,
    pass_at_k,
)
from llm_decpomdp.benchmarks.runs.results import (
    Row,
    make_episode_key,
    make_start_key,
    stored_rows,
    task_name,
)
from llm_decpomdp.utils.storage import RunFolder, read_json_lines, write_atomically, write_csv

TIMES, FAILURES = "times.jsonl", "failures.jsonl"


@dataclass(frozen=True)
class EvaluationResult:
    """The values of a complete evaluation; episodes that failed count in no measure."""

    folder: Path
    manifest: Row
    values: Mapping[str, Mapping[str, tuple[float, ...]]]
    """The values of the samples of each task, by measure, where it has any."""
    passes: Mapping[str, tuple[bool, ...]]
    """True for the samples of each task that pass, in the sense of pass@k."""
    seconds: Mapping[str, float]
    """Spent by agents and `environment`."""
    failures: tuple[str, ...] = ()
    """The error of each episode that is missing."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks with an episode at least, in the order that they were played in."""
        return tuple(self.passes)

    @property
    def episodes(self) -> int:
        """Number of episodes."""
        return sum(map(len, self.passes.values()))

    @property
    def samples(self) -> int:
        """Number of episodes of each task."""
        count: int = self.manifest["samples"]
        return count

    def means(self, measure: str) -> dict[str, float]:
        """Compute the mean over the samples of each task that has values, for comparisons."""
        return {task: sum(v) / len(v) for task, v in self.values[measure].items()}

    def pass_at_k(self, k: int) -> dict[str, float]:
        """Compute the unbiased pass@k of each task that has k samples.

        Raises:
            ValueError: If there are fewer than k samples.
        """
        if k > self.samples:
            raise ValueError(f"pass@{k} needs {k} samples, and there are {self.samples}")
        # Failed episodes leave some tasks with fewer samples than k.
        enough = {task: flags for task, flags in self.passes.items() if len(flags) >= k}
        return {task: pass_at_k(len(flags), sum(flags), k) for task, flags in enough.items()}


def read_evaluation(folder: Path | str) -> EvaluationResult:
    """Read the evaluation in a folder.

    Raises:
        ConfigError: If it holds none, or one that is not complete.
        RunError: If all of its episodes failed.
    """
    path = Path(folder)
    has_rows = any((path / name).is_file() for name in ("episodes.jsonl", FAILURES))
    manifest = RunFolder(path).read_manifest() if (path / "manifest.json").is_file() else {}
    if not has_rows or "samples" not in manifest:  # that of a training run
        raise ConfigError(f"{path} holds no evaluation: make one with llm-decpomdp eval")
    # An earlier evaluation may have had more samples; only those of the manifest count.
    episodes = {
        (n, make_start_key(start))
        for n in range(manifest["samples"])
        for start in manifest["starts"]
    }
    read = [row for _, row in stored_rows(path / "episodes.jsonl")]
    rows = {make_episode_key(row): row for row in read if make_episode_key(row) in episodes}
    errors = {make_episode_key(row): str(row["error"]) for row in read_json_lines(path / FAILURES)}
    failures = tuple(errors[place] for place in errors if place in episodes - rows.keys())
    # Without any episode no measure exists.
    if len(failures) == len(episodes):
        raise RunError(f"all {len(episodes)} episodes failed: {failures[0]}")
    if episodes - rows.keys() - errors.keys():
        raise ConfigError(
            f"the evaluation in {path} has {len(rows)} of {len(episodes)} episodes: run it again, and it goes on"
        )
    values: dict[str, dict[str, tuple[float, ...]]] = {}
    passes: dict[str, tuple[bool, ...]] = {}
    # The order of samples in the file depends on the order in which servers answered.
    for row in sorted(rows.values(), key=lambda row: int(row["sample"])):
        task = task_name(row)
        passes[task] = (*passes.get(task, ()), episode_passes(row))
        for measure, value in measures(row).items():
            task_estimates = values.setdefault(measure, {})
            task_estimates[task] = (*task_estimates.get(task, ()), value)
    seconds = _seconds(path, manifest["samples"])
    return EvaluationResult(path, manifest, values, passes, seconds, failures)


def _seconds(folder: Path, samples: int) -> dict[str, float]:
    """Add up the seconds of the first samples."""
    total: dict[str, float] = {}
    for row in read_json_lines(folder / TIMES):
        if row["sample"] >= samples:
            continue
        for name, seconds in row["seconds"].items():
            total[name] = total.get(name, 0.0) + seconds
    return total


IQM = "last/reward_iqm"

COMPARED = (REWARD, "last/solved", "pass@1", "tests_passed", "prompt_tokens", "tokens")
"""The measures in the table of several models, as far as there are any."""


def overall(evaluation: EvaluationResult) -> dict[str, Estimate]:
    """Estimate every measure over all tasks, which are the units of its interval.

    A measure counts the tasks that have it: the third turn's those that reached a third turn.
    """
    estimates = {}
    for measure in evaluation.values:
        means = list(evaluation.means(measure).values())
        estimates[measure] = estimate_measure(measure, means)
        # The interquartile mean stands beside the mean, since a few easy tasks can carry a mean.
        if measure == REWARD:
            estimates[IQM] = bootstrap(means, interquartile_mean)
    for k in evaluation.manifest["k"]:
        if values := list(evaluation.pass_at_k(k).values()):  # none if too many episodes failed
            estimates[f"pass@{k}"] = estimate_measure(f"pass@{k}", values)
    return estimates


def task_estimates(evaluation: EvaluationResult, task: str) -> dict[str, Estimate]:
    """Estimate every measure of one task, with its samples as the units; pass@k has no interval."""
    estimates = {
        measure: estimate_measure(measure, of_tasks[task])
        for measure, of_tasks in evaluation.values.items()
        if task in of_tasks
    }
    for k in evaluation.manifest["k"]:
        if task in (of_tasks := evaluation.pass_at_k(k)):
            samples = len(evaluation.passes[task])
            estimates[f"pass@{k}"] = Estimate(of_tasks[task], None, None, samples)
    return estimates


def summary(evaluation: EvaluationResult) -> dict[str, Any]:
    """Return the content of `summary.json`."""
    return {
        "tasks": len(evaluation.tasks),
        "samples": evaluation.samples,
        "episodes": evaluation.episodes,
        "failed": len(evaluation.failures),
        "about": evaluation.manifest["identity"]["about"],
        "overall": {name: asdict(estimate) for name, estimate in overall(evaluation).items()},
        "of_task": {
            task: {
                name: asdict(estimate)
                for name, estimate in task_estimates(evaluation, task).items()
            }
            for task in evaluation.tasks
        },
        "seconds": dict(evaluation.seconds),
        "seconds_per_episode": {
            name: s / evaluation.episodes for name, s in evaluation.seconds.items()
        },
    }


def write_summary(evaluation: EvaluationResult) -> None:
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


def table(evaluation: EvaluationResult) -> Table:
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
        # Refusals are rare, so zeros would only fill the table.
        if name.startswith("refused/") and row.value == 0:
            continue
        grid.add_row(name, number(row.value), interval(row), str(row.units))
    for name, seconds in evaluation.seconds.items():
        grid.add_row(f"seconds/{name}", number(seconds / evaluation.episodes), "", "")
    return grid


def comparison(evaluations: Mapping[str, EvaluationResult]) -> Table:
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
            cells = [
                estimate_text(of[measure]) if measure in of else "" for of in estimates.values()
            ]
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


def estimate_text(estimate: Estimate) -> str:
    """Write an estimate, such as "0.300 (0.200 to 0.400)", or the number alone where there is no interval."""
    return number(estimate.value) + (f" ({interval(estimate)})" if estimate.low is not None else "")


def read_estimates(path: Path) -> Any:
    """Read a JSON file that holds estimates, at whatever depth, as `asdict` writes them."""
    return json.loads(path.read_text(encoding="utf-8"), object_hook=_estimate_hook)


def _estimate_hook(content: dict[str, Any]) -> dict[str, Any] | Estimate:
    names = {field.name for field in fields(Estimate)}
    return Estimate(**content) if content.keys() == names else content
