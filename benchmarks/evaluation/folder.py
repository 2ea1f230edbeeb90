"""The folder of an evaluation, read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.evaluation.measures import measures, passed
from llm_decpomdp.benchmarks.evaluation.statistics import pass_at_k
from llm_decpomdp.benchmarks.runs.results import Row, key_of, place_of, stored_rows, task_name
from llm_decpomdp.utils.storage import RunFolder, read_json_lines

TIMES, FAILURES = "times.jsonl", "failures.jsonl"


@dataclass(frozen=True)
class Evaluation:
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
        enough = {task: flags for task, flags in self.passes.items() if len(flags) >= k}
        return {task: pass_at_k(len(flags), sum(flags), k) for task, flags in enough.items()}


def read_evaluation(folder: Path | str) -> Evaluation:
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
    episodes = {
        (n, key_of(start)) for n in range(manifest["samples"]) for start in manifest["starts"]
    }
    read = [row for _, row in stored_rows(path / "episodes.jsonl")]
    rows = {place_of(row): row for row in read if place_of(row) in episodes}
    errors = {place_of(row): str(row["error"]) for row in read_json_lines(path / FAILURES)}
    failures = tuple(errors[place] for place in errors if place in episodes - rows.keys())
    if len(failures) == len(episodes):
        raise RunError(f"all {len(episodes)} episodes failed: {failures[0]}")
    if episodes - rows.keys() - errors.keys():
        raise ConfigError(
            f"the evaluation in {path} has {len(rows)} of {len(episodes)} episodes: run it again, and it goes on"
        )
    values: dict[str, dict[str, tuple[float, ...]]] = {}
    passes: dict[str, tuple[bool, ...]] = {}
    for row in sorted(rows.values(), key=lambda row: int(row["sample"])):
        task = task_name(row)
        passes[task] = (*passes.get(task, ()), passed(row))
        for measure, value in measures(row).items():
            of_task = values.setdefault(measure, {})
            of_task[task] = (*of_task.get(task, ()), value)
    seconds = _seconds(path, manifest["samples"])
    return Evaluation(path, manifest, values, passes, seconds, failures)


def _seconds(folder: Path, samples: int) -> dict[str, float]:
    """Add up the seconds of the first samples."""
    total: dict[str, float] = {}
    for row in read_json_lines(folder / TIMES):
        if row["sample"] >= samples:
            continue
        for name, seconds in row["seconds"].items():
            total[name] = total.get(name, 0.0) + seconds
    return total
