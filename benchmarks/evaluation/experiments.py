"""Experiments, which are runs that differ only by their seed, and their estimates."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from statistics import fmean
from sys import intern
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import yaml

from llm_decpomdp.benchmarks.evaluation.statistics import (
    Estimate,
    MethodComparison,
    bootstrap,
    compare,
)
from llm_decpomdp.benchmarks.runs.results import Results, Row, Score, compute_task_means, get_reward
from llm_decpomdp.utils.text import number

OF_A_RUN = ("seed", "output")
"""Keys in which the configurations of one experiment may differ."""

NAMED_KEYS = 3

LONGEST = 20
"""Maximum characters of a line in the head of a column; longer ones are cut in their middle."""


@dataclass(frozen=True)
class Series:
    """One number of several runs over the updates that all of them have."""

    updates: list[int]
    values: npt.NDArray[np.float64]
    """(runs, updates)"""


@dataclass(frozen=True)
class TaskColumn:
    """One evaluation of an experiment, task by task."""

    experiment: str
    """Its name; empty if there is only one."""
    lines: tuple[str, ...]
    title: str
    update: int
    rewards: dict[str, float]
    """Mean over the seeds, by task."""


@dataclass(frozen=True)
class Experiment:
    """The runs of one configuration with different seeds."""

    name: str
    runs: tuple[Results, ...]

    @property
    def has_training(self) -> bool:
        """True if a run has updates, unlike the folder of an evaluation."""
        return any(run.train for run in self.runs)

    def has_evaluations(self, count: int) -> bool:
        """Check that every run has a number of evaluations."""
        return all(len(run.evaluations) >= count for run in self.runs)

    def rows(self, kind: str) -> list[Row]:
        """Return the metrics of all runs, of a kind: `train` or `eval`."""
        return [row for run in self.runs for row in run.rows(kind)]

    def series(self, kind: str, key: str) -> Series:
        """Return a key of the metrics over the updates that all runs have, of a kind: `train` or `eval`."""
        runs = [{r["update"]: r[key] for r in run.rows(kind) if key in r} for run in self.runs]
        # Updates that all runs have: one may have stopped early, or go on.
        updates = sorted(set.intersection(*map(set, runs)))
        return Series(updates, np.array([[run[u] for u in updates] for run in runs], dtype=float))


def experiments(runs: Sequence[Results]) -> list[Experiment]:
    """Group runs whose configurations are equal except for the seed and the output.

    Several experiments are named by the keys in which they differ; evaluations and a single training are named by
    their folder.
    """
    groups: dict[tuple[str, int], list[Results]] = {}
    settings: dict[tuple[str, int], Mapping[str, Any]] = {}
    times: Counter[tuple[str, Any]] = Counter()
    for run in runs:
        flat = _settings(run)
        # As text where YAML has a value that JSON has not, such as a date.
        text = json.dumps(dict(flat), sort_keys=True, default=str)
        seed = run.manifest.get("seed")
        # A second run of a seed is not another seed and must not narrow an interval, so it is a
        # separate experiment.
        key = text, times[text, seed]
        times[text, seed] += 1
        groups.setdefault(key, []).append(run)
        settings[key] = flat
    trained = [settings[key] for key, (first, *_) in groups.items() if first.config_text]
    keys = dict.fromkeys(name for of in trained for name in of)
    # As texts, since a list of a configuration cannot be in a set.
    differing = [name for name in keys if len({str(of.get(name)) for of in trained}) > 1]
    experiments: list[Experiment] = []
    for key, members in groups.items():
        folder = name = members[0].path.name
        if members[0].config_text and differing:
            name = ", ".join(f"{k}={settings[key].get(k)}" for k in differing[:NAMED_KEYS])
        if name in [experiment.name for experiment in experiments]:
            name += f" ({folder})"
        experiments.append(Experiment(name, tuple(members)))
    return experiments


def headings(experiments: Sequence[Experiment]) -> dict[str, tuple[str, ...]]:
    """Return the names of experiments as lines that fit above a column, keys without their section."""
    names = [experiment.name for experiment in experiments]
    short = {name: tuple(map(_shorten, name.split(", "))) for name in names}
    if len(set(short.values())) == len(short):
        return short
    # Equal short names begin where the names differ.
    letters = zip(*names, strict=False)
    shared = sum(1 for _ in takewhile(lambda of: len(set(of)) == 1, letters))
    return {name: tuple(map(_shorten, f"…{name[shared:]}".split(", "))) for name in names}


def _shorten(line: str) -> str:
    line = re.sub(r"^[\w.]+\.(?=\w+=)", "", line)
    # The second half is shorter by one, for the ellipsis.
    half = LONGEST // 2
    return line if len(line) <= LONGEST else f"{line[:half]}…{line[1 - half :]}"


def _settings(run: Results) -> Mapping[str, Any]:
    """Return the configuration of a run, or the identity of an evaluation, as flat keys."""
    if run.config_text:
        try:
            return read_settings(run.config_text)
        except (yaml.YAMLError, AttributeError) as error:  # no YAML, or no mapping
            raise ValueError(f"{run.path}/config.yaml is damaged: {error}") from error
    tree = run.manifest.get("identity", {"folder": str(run.path)})
    return _flatten({key: value for key, value in tree.items() if key not in OF_A_RUN})


@lru_cache(maxsize=4096)  # a page of many runs asks several times for each
def read_settings(config_text: str) -> Mapping[str, Any]:
    """Return the configuration of a run as flat keys, without those of `OF_A_RUN`."""
    # The loader in C, where there is one, is ten times as fast.
    tree = yaml.load(config_text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return _flatten({key: value for key, value in tree.items() if key not in OF_A_RUN})


def config_differences(experiments: Sequence[Experiment]) -> dict[str, list[Any]]:
    """Return the keys in which trained experiments differ, each with the value of every one of them."""
    settings = [_settings(e.runs[0]) for e in experiments if e.runs[0].config_text]
    keys = dict.fromkeys(key for of in settings for key in of)
    values = {key: [of.get(key) for of in settings] for key in keys}
    return {key: of for key, of in values.items() if len(set(map(str, of))) > 1}


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        name = intern(f"{prefix}{key}")  # a page of many runs has each key many times
        flat |= _flatten(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return flat


Table: TypeAlias = npt.NDArray[np.float64]


SEEDS_NEEDED_NOTE = (
    "Seeds needed: seeds of each arm that would make the interval of such a difference exclude 0 in about half "
    "of all cases, if it does not yet; 'more tasks': the number of tasks limits the interval, not that of seeds."
)


def evaluation_mean(experiment: Experiment, position: int) -> Estimate:
    """Estimate the mean team reward of the first (0) or last (-1) evaluation, as `evaluated_after`."""
    table = _table(_scores(experiment, position))
    if table is None:
        value = fmean(run.evaluations[position]["reward_mean"] for run in experiment.runs)
        return Estimate(value, None, None, len(experiment.runs))
    return bootstrap(table)


def first_moment(experiment: Experiment) -> str:
    """Return the time of the first evaluation in words; gains are relative to it."""
    return "after the warm start" if any(r.lessons for r in experiment.runs) else "before training"


def evaluation_return(experiment: Experiment, position: int) -> Estimate | None:
    """Estimate the mean sum of an episode's rewards in the first (0) or last (-1) evaluation.

    `None` unless all runs played the same tasks.
    """
    return last_estimate(experiment, lambda score: sum(score.turns), position)


def last_estimate(
    experiment: Experiment,
    value: Callable[[Score], float],
    position: int = -1,
    estimate: Callable[[Table], Estimate] = bootstrap,
) -> Estimate | None:
    """Estimate a mean of the last (-1) or first (0) evaluation; `None` unless all runs played the same tasks."""
    table = _table(_scores(experiment, position), value)
    return None if table is None else estimate(table)


def evaluated_after(experiment: Experiment, update: int) -> Estimate:
    """Estimate the mean team reward after an update; with an interval if all runs played the same tasks."""
    table = _table([run.select_scores("eval", update) for run in experiment.runs])
    if table is None:
        series = experiment.series("eval", "reward_mean")
        value = float(series.values[:, series.updates.index(update)].mean())
        return Estimate(value, None, None, len(experiment.runs))
    return bootstrap(table)


def mean_gain(experiment: Experiment) -> Estimate:
    """Estimate the gain in reward from the first to the last evaluation, run by run and task by task."""
    gain = _gain(experiment, get_reward)
    if gain is not None:
        return gain
    value = evaluation_mean(experiment, -1).value - evaluation_mean(experiment, 0).value
    return Estimate(value, None, None, len(experiment.runs))


def component_gain(experiment: Experiment, components: Sequence[str]) -> Estimate | None:
    """Estimate the gain in some components; `None` unless all runs played the same tasks."""
    return _gain(experiment, lambda score: sum(score.points.get(n, 0.0) for n in components))


def _gain(experiment: Experiment, value: Callable[[Score], float]) -> Estimate | None:
    pair = _paired_tables(_scores(experiment, 0), _scores(experiment, -1), value)
    return None if pair is None else bootstrap(pair[1] - pair[0])


def compare_experiments(first: Experiment, second: Experiment) -> MethodComparison | None:
    """Compare the last evaluations of two experiments; `None` unless all their runs played the same tasks."""
    pair = _paired_tables(_scores(first, -1), _scores(second, -1))
    return None if pair is None else compare(*pair)


def solved_counts(experiment: Experiment) -> list[tuple[int, int]]:
    """Return solved and all episodes of the first and last evaluation over all runs; empty if unknown."""
    counts = []
    for position in (0, -1):
        solved = [score.solved for of in _scores(experiment, position) for score in of]
        if not solved or None in solved:
            return []
        counts.append((sum(map(bool, solved)), len(solved)))
    return counts


def _scores(experiment: Experiment, position: int) -> list[list[Score]]:
    """Return the scores of the first (0) or last (-1) evaluation of each run."""
    return [
        run.select_scores("eval", run.evaluations[position]["update"]) for run in experiment.runs
    ]


def _table(
    runs: Sequence[Sequence[Score]], value: Callable[[Score], float] = get_reward
) -> Table | None:
    """Tabulate mean rewards, or others, (runs, tasks); `None` unless all runs played the same tasks."""
    table = [compute_task_means(scores, value) for scores in runs]
    names = sorted(table[0])
    # Pairing by task needs equal tasks.
    if not names or any(sorted(row) != names for row in table):
        return None
    return np.array([[row[name] for name in names] for row in table])


def _paired_tables(
    first: Sequence[Sequence[Score]],
    second: Sequence[Sequence[Score]],
    value: Callable[[Score], float] = get_reward,
) -> tuple[Table, Table] | None:
    """Tabulate the runs of two evaluations over the same tasks, as `_table`."""
    table = _table([*first, *second], value)
    return None if table is None else (table[: len(first)], table[len(first) :])


def seeds_needed(comparison: MethodComparison) -> str:
    """Write the number of seeds that a comparison needs, such as "12", or that it lacks tasks."""
    if comparison.more_tasks:
        return "more tasks"
    return "—" if comparison.seeds_needed is None else str(comparison.seeds_needed)


def interval_units(experiments: Sequence[Experiment]) -> str:
    """Name the units of the intervals of experiments, in words."""
    return "over tasks and seeds" if any(len(e.runs) > 1 for e in experiments) else "over tasks"


def format_interval(estimate: Estimate, *, sign: bool = False) -> str:
    """Write an interval, such as "1.21 to 1.57"; empty where there is none, or where its width is 0."""
    if estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return ""
    return f"{number(estimate.low, sign=sign)} to {number(estimate.high, sign=sign)}"


def format_estimate(estimate: Estimate, *, sign: bool = False) -> str:
    """Write an estimate, such as "1.39 (1.21 to 1.57)"."""
    text = format_interval(estimate, sign=sign)
    return number(estimate.value, sign=sign) + (f" ({text})" if text else "")
