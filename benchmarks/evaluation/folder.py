"""The folder of an evaluation, read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_decpomdp.benchmarks.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.measures import measures, passed
from llm_decpomdp.benchmarks.results import Row, task_name
from llm_decpomdp.benchmarks.statistics import pass_at_k
from llm_decpomdp.storage import RunFolder, read_json_lines

TIMES = "times.jsonl"


@dataclass(frozen=True)
class Evaluation:
    """What a complete evaluation has found."""

    folder: Path
    manifest: Row
    values: Mapping[str, Mapping[str, tuple[float, ...]]]
    """For each measure and task the values of its samples, where it has any."""
    passes: Mapping[str, tuple[bool, ...]]
    """For each task which samples pass, in the sense of pass@k."""
    seconds: Mapping[str, float]
    """Spent by agents and `environment`."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks, in the order that they were played in."""
        return tuple(self.passes)

    @property
    def samples(self) -> int:
        """How often each task was played."""
        count: int = self.manifest["samples"]
        return count

    def means(self, measure: str) -> dict[str, float]:
        """The mean over the samples of each task that has values: what comparisons are made of."""
        return {task: sum(v) / len(v) for task, v in self.values[measure].items()}

    def pass_at_k(self, k: int) -> dict[str, float]:
        """The unbiased pass@k of each task.

        Raises:
            ValueError: If there are fewer than k samples.
        """
        return {task: pass_at_k(len(flags), sum(flags), k) for task, flags in self.passes.items()}


def read_evaluation(folder: Path | str) -> Evaluation:
    """The evaluation in a folder.

    Raises:
        ConfigError: If it holds none, or one that is not complete.
    """
    path = Path(folder)
    if not (path / "manifest.json").is_file() or not (path / "episodes.jsonl").is_file():
        raise ConfigError(f"{path} holds no evaluation: make one with llm-decpomdp eval")
    manifest = RunFolder(path).read_manifest()
    if "samples" not in manifest:  # that of a training run
        raise ConfigError(f"{path} holds no evaluation: make one with llm-decpomdp eval")
    wanted = {
        (n, key_of(start)) for n in range(manifest["samples"]) for start in manifest["starts"]
    }
    rows = [r for r in read_json_lines(path / "episodes.jsonl") if place_of(r) in wanted]
    if len(rows) < len(wanted):
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
    return Evaluation(path, manifest, values, passes, _seconds(path, manifest["samples"]))


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
