"""One configuration over several seeds: what it learns on held-out problems, and how much chance is in it."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

from rich.console import Console
from rich.table import Table

from llm_decpomdp.benchmarks.csv_files import write_csv
from llm_decpomdp.benchmarks.errors import ConfigError
from llm_decpomdp.benchmarks.results import Results, change, read_results
from llm_decpomdp.benchmarks.schema import Config
from llm_decpomdp.storage import RunFolder, write_atomically

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Point:
    """The evaluations of all seeds after as many updates."""

    update: int
    rewards: tuple[float, ...]
    """Mean team reward on the held-out problems, one for each seed."""

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return fmean(self.rewards)

    @property
    def standard_error(self) -> float:
        """Of the mean over the seeds; `nan` with one."""
        count = len(self.rewards)
        return stdev(self.rewards) / math.sqrt(count) if count > 1 else math.nan


def run_seeds(config: Config, name: str, seeds: Sequence[int]) -> Path:
    """Train once for each seed, then write `curve.csv`, `curve.png` and print what was learned.

    Runs that are there already are not repeated, and begun ones go on where they stopped.

    Args:
        config: The configuration; `seed` and `output` are set for each run.
        name: Its name.
        seeds: Different seeds, one run each.

    Returns:
        The folder, `<output.base_dir>/<output.name or name>-seeds`.

    Raises:
        ConfigError: If a seed is given twice, or nothing is evaluated.
        RunError: As `run.train`.
    """
    if len(set(seeds)) != len(seeds) or not seeds:
        raise ConfigError(f"seeds must be different and at least one, got {list(seeds)}")
    if config.evaluation.num_tasks == 0:
        raise ConfigError("the seeds are compared on held-out problems; evaluation.num_tasks is 0")
    folder = Path(config.output.base_dir) / f"{config.output.name or name}-seeds"
    results = [_result(config, name, seed, folder) for seed in seeds]
    points = curve(results)
    head = ["update", "mean", "standard_error", *(f"seed_{seed}" for seed in seeds)]
    write_csv(
        folder / "curve.csv",
        head,
        ([p.update, p.mean, p.standard_error, *p.rewards] for p in points),
    )
    draw(points, seeds, folder / "curve.png", name)
    Console(width=100, highlight=False).print(table(results, seeds))
    return folder


def _result(config: Config, name: str, seed: int, folder: Path) -> Results:
    from llm_decpomdp.benchmarks.run import go_on

    run = RunFolder(folder / f"seed-{seed}")
    if not (run.path / "done").exists():
        logger.info("seed %d: %s", seed, run.path)
        go_on(replace(config, seed=seed), name, run)
        write_atomically(run.path / "done", "")
    return read_results(run)


def curve(results: Sequence[Results]) -> list[Point]:
    """The evaluations that all runs have, by update."""
    found = [
        {row["update"]: row["reward_mean"] for row in result.evaluations} for result in results
    ]
    shared = sorted(set.intersection(*map(set, found)))
    return [Point(update, tuple(of_run[update] for of_run in found)) for update in shared]


def draw(points: Sequence[Point], seeds: Sequence[int], path: Path, name: str) -> None:
    """The mean curve with a band of one standard error, and the curve of each seed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained", dpi=120)
    axes = figure.subplots()
    updates = [point.update for point in points]
    for index, seed in enumerate(seeds):
        rewards = [point.rewards[index] for point in points]
        axes.plot(updates, rewards, linewidth=0.9, alpha=0.6, marker=".", label=f"seed {seed}")
    means, errors = [p.mean for p in points], [p.standard_error for p in points]
    axes.plot(updates, means, color="black", linewidth=2.2, label="mean")
    if len(seeds) > 1:
        low = [mean - error for mean, error in zip(means, errors, strict=True)]
        high = [mean + error for mean, error in zip(means, errors, strict=True)]
        axes.fill_between(updates, low, high, color="black", alpha=0.12, label="± 1 standard error")
    axes.set_xlabel("update")
    axes.set_ylabel("mean team reward, held-out problems")
    axes.set_title(f"{name}, {len(seeds)} seeds", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def table(results: Sequence[Results], seeds: Sequence[int]) -> Table:
    """Before and after training for each seed, and over all."""
    found = Table(title="Mean team reward on held-out problems (± 1 standard error)")
    for column in ("seed", "problems", "before", "after", "gain, problem by problem"):
        found.add_column(column, justify="right")
    gains = []
    for seed, result in zip(seeds, results, strict=True):
        before, after, gain = result.evaluations[0], result.evaluations[-1], change(result)
        gains.append(gain.difference)
        found.add_row(
            str(seed),
            str(after["n"]),
            _number(before["reward_mean"], before["reward_standard_error"]),
            _number(after["reward_mean"], after["reward_standard_error"]),
            _number(gain.difference, gain.standard_error),
        )
    found.add_section()
    means = [
        Point(0, tuple(result.evaluations[i]["reward_mean"] for result in results)) for i in (0, -1)
    ]
    cells = [_number(p.mean, p.standard_error) for p in (*means, Point(0, tuple(gains)))]
    found.add_row("over seeds", "", *cells)
    return found


def _number(mean: float, error: float | None) -> str:
    return f"{mean:.3f}" if error is None or math.isnan(error) else f"{mean:.3f} ± {error:.3f}"
