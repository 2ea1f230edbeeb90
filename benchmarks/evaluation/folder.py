"""The results in the folder of an evaluation, their files and their tables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike
from rich.table import Table

from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.evaluation.play import REWARD, episode_passes, measures
from llm_decpomdp.benchmarks.evaluation.statistics import (
    Estimate,
    bootstrap,
    interquartile_mean,
    pass_at_k,
    share,
    value_of_communication,
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
    """The values of a complete evaluation; no measure counts failed episodes."""

    folder: Path
    manifest: Row
    values: Mapping[str, Mapping[str, tuple[float, ...]]]
    """The values of each task's samples, by measure."""
    passes: Mapping[str, tuple[bool, ...]]
    """Whether each sample of a task passes, as in pass@k."""
    seconds: Mapping[str, float]
    """Spent by agents and `environment`."""
    failures: tuple[str, ...] = ()

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks with at least one episode, in the order of play."""
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
        """Compute the mean over the samples of each task that has values."""
        return {task: sum(v) / len(v) for task, v in self.values[measure].items()}

    def returns(self) -> dict[str, float]:
        """Compute the mean sum of an episode's rewards over the samples of each task."""
        sums = dict.fromkeys(self.passes, 0.0)
        for measure, of_tasks in self.values.items():
            if re.fullmatch(r"turn_\d+/reward_mean", measure):
                for task, values in of_tasks.items():
                    sums[task] += sum(values)
        return {task: total / len(self.passes[task]) for task, total in sums.items()}

    def pass_at_k(self, k: int) -> dict[str, float]:
        """Compute the unbiased pass@k of each task that has k samples; raise a `ValueError` if none can have."""
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
            of_tasks = values.setdefault(measure, {})
            of_tasks[task] = (*of_tasks.get(task, ()), value)
    seconds: dict[str, float] = {}
    for row in read_json_lines(path / TIMES):
        # Times are those of a batch, and a batch may have more samples than were asked for.
        count, wanted = row.get("samples", 1), manifest["samples"] - row["sample"]
        if wanted > 0:
            for name, value in row["seconds"].items():
                seconds[name] = seconds.get(name, 0.0) + value * min(count, wanted) / count
    return EvaluationResult(path, manifest, values, passes, seconds, failures)


IQM = "last/reward_iqm"

COMPARED = (
    *(REWARD, "last/solved", "pass@1", "tests_passed"),
    *("prompt_tokens", "tokens", "sequential_tokens", "answer_seconds"),
)


def is_share(measure: str) -> bool:
    """Check whether a measure lies between 0 and 1, so that equal values still leave room for chance."""
    shares = ("truncated/", "refused/", "cooperation/", "pass@")
    return measure.startswith(shares) or measure.endswith(("solved", "tests_passed"))


def estimate_measure(measure: str, scores: ArrayLike) -> Estimate:
    """Estimate a measure from scores of shape (tasks,) or (seeds, tasks)."""
    return share(scores) if is_share(measure) else bootstrap(scores)


def overall(evaluation: EvaluationResult) -> dict[str, Estimate]:
    """Estimate every measure over the tasks that have it, which are the units of its interval."""
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
    # Environments with a known optimum pay for an increase of the score, so whole episodes count.
    if numbers := evaluation.manifest.get("description", {}).get("numbers"):
        estimates["return"] = bootstrap(list(evaluation.returns().values()))
        if communication := value_of_communication(estimates["return"], numbers):
            estimates["value_of_communication"] = communication
    return estimates


def summary(evaluation: EvaluationResult) -> dict[str, Any]:
    """Return the content of `summary.json`."""
    by_task: dict[str, dict[str, Any]] = {task: {} for task in evaluation.tasks}
    for measure, of_tasks in evaluation.values.items():
        for task, samples in of_tasks.items():
            by_task[task][measure] = asdict(estimate_measure(measure, samples))
    for k in evaluation.manifest["k"]:
        # The samples of one task give a single pass@k, so it has no interval.
        for task, value in evaluation.pass_at_k(k).items():
            samples_of_task = len(evaluation.passes[task])
            by_task[task][f"pass@{k}"] = asdict(Estimate(value, None, None, samples_of_task))
    episodes = evaluation.episodes
    return {
        "tasks": len(evaluation.tasks),
        "samples": evaluation.samples,
        "episodes": episodes,
        "failed": len(evaluation.failures),
        "about": evaluation.manifest["identity"]["about"],
        "overall": {name: asdict(estimate) for name, estimate in overall(evaluation).items()},
        "of_task": by_task,
        "seconds": dict(evaluation.seconds),
        "seconds_per_episode": {name: s / episodes for name, s in evaluation.seconds.items()},
    }


def write_summary(evaluation: EvaluationResult) -> None:
    """Write `summary.json`, `summary.csv` and `tasks.csv` into the evaluation's folder."""
    content = summary(evaluation)
    write_atomically(evaluation.folder / "summary.json", json.dumps(content, indent=2) + "\n")
    columns = ["value", "low", "high", "units"]
    lines = [[name, *(row[c] for c in columns)] for name, row in content["overall"].items()]
    write_csv(evaluation.folder / "summary.csv", ["measure", *columns], lines)
    names = [name for name in content["overall"] if name != IQM]
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
    for name, row in sorted(estimates.items(), key=lambda item: _order(item[0])):
        if "reward/" in name:
            is_visible = name.startswith("last/")
        else:
            is_visible = several_turns or not name.startswith(("turn", "reward_mean", "solved"))
        # Refusals are rare, so zeros would only fill the table.
        if is_visible and (row.value or not name.startswith("refused/")):
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
    measures = dict.fromkeys(name for of in estimates.values() for name in of)
    refusals = [name for name in measures if "refused/" in name]
    for measure in (*COMPARED, *refusals):
        columns = [of.get(measure) for of in estimates.values()]
        if any(row and (row.value or measure in COMPARED) for row in columns):
            table.add_row(measure, *(estimate_text(row) if row else "" for row in columns))
    table.add_row("failed episodes", *(str(len(e.failures)) for e in evaluations.values()))
    return table


def _order(measure: str) -> tuple[int, str]:
    """Order measures: the end of episodes first, then all turns, then each turn, then costs."""
    groups = {
        **{"last": 0, "pass@": 1, "tests": 2, "all_tests": 2, "cooper": 3, "turn_": 5},
        **dict.fromkeys(("tok", "prompt_tok", "seq", "answer", "trunc", "refused"), 6),
    }
    return next((rank for start, rank in groups.items() if measure.startswith(start)), 4), measure


def number(value: float) -> str:
    """Write a number with three decimals, or with one from 100 on."""
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"


def interval(estimate: Estimate) -> str:
    """Write an interval, such as "0.200 to 0.400"; empty where there is none, or where its width is 0."""
    if estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return ""
    return f"{number(estimate.low)} to {number(estimate.high)}"


def estimate_text(estimate: Estimate) -> str:
    """Write an estimate, such as "0.300 (0.200 to 0.400)"; without an interval only the number."""
    text = interval(estimate)
    return number(estimate.value) + (f" ({text})" if text else "")


def read_estimates(path: Path) -> Any:
    """Read a JSON file that holds estimates at any depth, as `asdict` writes them."""
    names = {field.name for field in fields(Estimate)}
    return json.loads(
        path.read_text(encoding="utf-8"),
        object_hook=lambda content: Estimate(**content) if content.keys() == names else content,
    )
