"""The folder of an evaluation, read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.evaluation.measures import measures, passed
from llm_decpomdp.benchmarks.evaluation.statistics import pass_at_k
from llm_decpomdp.benchmarks.runs.results import Row, task_name
from llm_decpomdp.utils.storage import RunFolder, read_json_lines

TIMES, FAILURES = "times.jsonl", "failures.jsonl"


@dataclass(frozen=True)
class Evaluation:
    """What a complete evaluation has found; episodes that failed count in no measure."""

    folder: Path
    manifest: Row
    values: Mapping[str, Mapping[str, tuple[float, ...]]]
    """For each measure and task the values of its samples, where it has any."""
    passes: Mapping[str, tuple[bool, ...]]
    """For each task which samples pass, in the sense of pass@k."""
    seconds: Mapping[str, float]
    """Spent by agents and `environment`."""
    failures: tuple[str, ...] = ()
    """Why episodes are missing: an error for each of them."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks with an episode at least, in the order that they were played in."""
        return tuple(self.passes)

    @property
    def episodes(self) -> int:
        """How many episodes there are."""
        return sum(map(len, self.passes.values()))

    @property
    def samples(self) -> int:
        """How often each task was to be played."""
        count: int = self.manifest["samples"]
        return count

    def means(self, measure: str) -> dict[str, float]:
        """The mean over the samples of each task that has values: what comparisons are made of."""
        return {task: sum(v) / len(v) for task, v in self.values[measure].items()}

    def pass_at_k(self, k: int) -> dict[str, float]:
        """The unbiased pass@k of each task that has k samples.

        Raises:
            ValueError: If there are fewer than k samples.
        """
        if k > self.samples:
            raise ValueError(f"pass@{k} needs {k} samples, and there are {self.samples}")
        enough = {task: flags for task, flags in self.passes.items() if len(flags) >= k}
        return {task: pass_at_k(len(flags), sum(flags), k) for task, flags in enough.items()}


def read_evaluation(folder: Path | str) -> Evaluation:
    """The evaluation in a folder.

    Raises:
        ConfigError: If it holds none, or one that is not complete.
        RunError: If all of its episodes failed.
    """
    path = Path(folder)
    played = any((path / name).is_file() for name in ("episodes.jsonl", FAILURES))
    if not (path / "manifest.json").is_file() or not played:
        raise ConfigError(f"{path} holds no evaluation: make one with llm-decpomdp eval")
    manifest = RunFolder(path).read_manifest()
    if "samples" not in manifest:  # that of a training run
        raise ConfigError(f"{path} holds no evaluation: make one with llm-decpomdp eval")
    wanted = {
        (n, key_of(start)) for n in range(manifest["samples"]) for start in manifest["starts"]
    }
    rows = [r for r in read_json_lines(path / "episodes.jsonl") if place_of(r) in wanted]
    failures = tuple(
        row["error"] for row in read_json_lines(path / FAILURES) if place_of(row) in wanted
    )
    if len(failures) == len(wanted):
        raise RunError(f"all {len(wanted)} episodes failed: {failures[0]}")
    if len(rows) + len(failures) < len(wanted):
        raise ConfigError(
            f"the evaluation in {path} has {len(rows)} of {len(wanted)} episodes: run it again, and it goes on"
        )
    values: dict[str, dict[str, tuple[float, ...]]] = {}
    passes: dict[str, tuple[bool, ...]] = {}
    for row in sorted(rows, key=lambda row: int(row["sample"])):
        task = task_name(row)
        passes[task] = (*passes.get(task, ()), passed(row))
        for measure, value in measures(row).items():
            of_task = values.setdefault(measure, {})
            of_task[task] = (*of_task.get(task, ()), value)
    seconds = _seconds(path, manifest["samples"])
    return Evaluation(path, manifest, values, passes, seconds, failures)


def _seconds(folder: Path, samples: int) -> dict[str, float]:
    """The seconds of the first samples."""
    total: dict[str, float] = {}
    for row in read_json_lines(folder / TIMES):
        if row["sample"] >= samples:
            continue
        for name, spent in row["seconds"].items():
            total[name] = total.get(name, 0.0) + spent
    return total


def place_of(row: Mapping[str, Any]) -> tuple[int, tuple[Any, Any]]:
    """Which sample of which start a row is."""
    return row["sample"], key_of(row["start"])


def key_of(start: Mapping[str, Any]) -> tuple[Any, Any]:
    """What tells starts apart."""
    return start["seed"], start["task_id"]
