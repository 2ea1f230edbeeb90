"""Means with their intervals, from the tasks and seeds of experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from llm_decpomdp.benchmarks.evaluation.experiments import Experiment
from llm_decpomdp.benchmarks.evaluation.statistics import Comparison, Estimate, bootstrap, compare
from llm_decpomdp.benchmarks.runs.results import Score, by_task, reward_of
from llm_decpomdp.utils.text import number

Table: TypeAlias = npt.NDArray[np.float64]


NEEDED = (
    "Seeds needed: how many of each would tell such a difference from none in about half of all cases, where it "
    "is not told yet; 'more tasks': there are enough seeds, and chance in the tasks is what hides it."
)


def evaluated(experiment: Experiment, position: int) -> Estimate:
    """Estimate the mean team reward of the first (0) or last (-1) evaluation of each run, as `evaluated_after`."""
    table = _table(_scores(experiment, position))
    if table is None:
        value = fmean(run.evaluations[position]["reward_mean"] for run in experiment.runs)
        return Estimate(value, None, None, len(experiment.runs))
    return bootstrap(table)


def evaluated_after(experiment: Experiment, update: int) -> Estimate:
    """Estimate the mean team reward after an update; without an interval unless all runs played the same tasks."""
    table = _table([run.scores_at("eval", update) for run in experiment.runs])
    if table is None:
        series = experiment.series("eval", "reward_mean")
        value = float(series.values[:, series.updates.index(update)].mean())
        return Estimate(value, None, None, len(experiment.runs))
    return bootstrap(table)


def gained(experiment: Experiment) -> Estimate:
    """Estimate the gain in reward from the first to the last evaluation, run by run and task by task."""
    gain = _gain(experiment, reward_of)
    if gain is not None:
        return gain
    value = evaluated(experiment, -1).value - evaluated(experiment, 0).value
    return Estimate(value, None, None, len(experiment.runs))


def gained_in(experiment: Experiment, components: Sequence[str]) -> Estimate | None:
    """Estimate the gain in the points of some components; `None` unless all runs played the same tasks."""

    def points(score: Score) -> float:
        return sum(score.points.get(name, 0.0) for name in components)

    return _gain(experiment, points)


def _gain(experiment: Experiment, value: Callable[[Score], float]) -> Estimate | None:
    pair = _paired(_scores(experiment, 0), _scores(experiment, -1), value)
    return None if pair is None else bootstrap(pair[1] - pair[0])


def compared(first: Experiment, second: Experiment) -> Comparison | None:
    """Compare the last evaluations of two experiments; `None` unless all their runs played the same tasks."""
    pair = _paired(_scores(first, -1), _scores(second, -1))
    return None if pair is None else compare(*pair)


def _scores(experiment: Experiment, position: int) -> list[list[Score]]:
    """Return the scores of the first (0) or last (-1) evaluation of each run."""
    return [run.scores_at("eval", run.evaluations[position]["update"]) for run in experiment.runs]


def _table(
    runs: Sequence[Sequence[Score]], value: Callable[[Score], float] = reward_of
) -> Table | None:
    """Tabulate mean rewards, or others, (runs, tasks); `None` unless all runs played the same tasks."""
    table = [by_task(scores, value) for scores in runs]
    names = sorted(table[0])
    if not names or any(sorted(row) != names for row in table):
        return None
    return np.array([[row[name] for name in names] for row in table])


def _paired(
    first: Sequence[Sequence[Score]],
    second: Sequence[Sequence[Score]],
    value: Callable[[Score], float] = reward_of,
) -> tuple[Table, Table] | None:
    """Tabulate the runs of two evaluations over the same tasks, as `_table`."""
    table = _table([*first, *second], value)
    return None if table is None else (table[: len(first)], table[len(first) :])


def seeds_needed(comparison: Comparison) -> str:
    """Write the number of seeds that a comparison needs, such as "12", or that it lacks tasks."""
    if comparison.more_tasks:
        return "more tasks"
    return "—" if comparison.seeds_needed is None else str(comparison.seeds_needed)


def over(experiments: Sequence[Experiment]) -> str:
    """Name the units of the intervals of experiments, in words."""
    return "over tasks and seeds" if any(len(e.runs) > 1 for e in experiments) else "over tasks"


def interval(estimate: Estimate, *, sign: bool = False) -> str:
    """Write an interval, such as "1.21 to 1.57"; empty where there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{number(estimate.low, sign=sign)} to {number(estimate.high, sign=sign)}"


def shown(estimate: Estimate, *, sign: bool = False) -> str:
    """Write an estimate, such as "1.39 (1.21 to 1.57)"."""
    text = interval(estimate, sign=sign)
    return number(estimate.value, sign=sign) + (f" ({text})" if text else "")
