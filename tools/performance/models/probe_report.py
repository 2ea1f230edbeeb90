"""Curves of the probes, and what is written of them: a line each, points, a picture, a table for a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from llm_decpomdp.benchmarks.evaluation.experiments import format_estimate
from llm_decpomdp.benchmarks.evaluation.statistics import bootstrap
from llm_decpomdp.envs.probes.known import PROBES
from llm_decpomdp.utils.storage import write_csv
from tools.performance.models.probe_trials import ProbeTrial

ENOUGH = 0.9
"""Share of the optimum that counts as reached."""


@dataclass(frozen=True)
class Curve:
    """Value of a team, measured again and again while it learns."""

    trial: ProbeTrial
    seed: int
    updates: Sequence[int]
    values: Sequence[float]
    """Mean sum of the rewards of an episode, without discount and offset."""
    completions: Sequence[int]
    """Completions of all agents that were sampled for training up to then."""
    tokens: int
    """Tokens of all of them."""
    seconds: float

    @property
    def reach(self) -> float:
        """Completions after which the team had 90 % of the optimum; infinite if it never had."""
        goal = ENOUGH * PROBES[self.trial.probe].optimum
        points = zip(self.completions, self.values, strict=True)
        return next((completions for completions, value in points if value >= goal), math.inf)


def summarise(curves: Sequence[Curve]) -> dict[str, str]:
    """Return a line of the table, by heading: the seeds of a trial."""
    trial, probe = curves[0].trial, PROBES[curves[0].trial.probe]
    finals = [curve.values[-1] for curve in curves]
    goals = sorted(curve.reach for curve in curves)
    median = goals[len(goals) // 2]
    return {
        "probe": trial.probe,
        "algorithm": str(trial),
        "value": format_estimate(bootstrap(finals)),
        "completions to 90 %": f"{median:,.0f}" if median < math.inf else "-",
        "seeds there": f"{sum(goal < math.inf for goal in goals)}/{len(goals)}",
        "completions": f"{np.mean([curve.completions[-1] for curve in curves]):,.0f}",
        "tokens": f"{np.mean([curve.tokens for curve in curves]):,.0f}",
        "random": f"{probe.random_value:.3f}",
        "optimum": f"{probe.optimum:.0f}",
        "seconds": f"{np.mean([curve.seconds for curve in curves]):.1f}",
    }


def write_points(curves: Sequence[Curve], path: Path) -> None:
    """Write all points of all curves."""
    header = ("probe", "algorithm", "trial", "seed", "update", "completions", "value")
    lines = [
        (curve.trial.probe, curve.trial.algorithm, str(curve.trial), curve.seed, *point)
        for curve in curves
        for point in zip(curve.updates, curve.completions, curve.values, strict=True)
    ]
    write_csv(path, header, lines)


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Draw a panel for each probe: the mean over the seeds and their range, between chance and optimum."""
    names = list(dict.fromkeys(curve.trial.probe for curve in curves))
    figure = Figure(figsize=(4 * len(names), 4), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        for level in (PROBES[name].random_value, PROBES[name].optimum):
            axes.axhline(level, color="grey", linestyle=":", linewidth=1)
        trials = [curve.trial for curve in curves if curve.trial.probe == name]
        for trial in dict.fromkeys(trials):
            seeds = [curve for curve in curves if curve.trial == trial]
            values = np.array([curve.values for curve in seeds])  # (seeds, points)
            axes.plot(seeds[0].completions, values.mean(0), label=str(trial))
            axes.fill_between(seeds[0].completions, values.min(0), values.max(0), alpha=0.15)
        axes.set_title(name)
        axes.set_xlabel("completions")
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=120)


def markdown(curves: Sequence[Curve]) -> str:
    """Return tables of Markdown, of the probes with one turn and of the others: a row for each way to learn.

    A cell is the mean value at the end with its 95 % interval and, where most seeds had 90 % of the optimum, the
    median of the completions after which they had it. Ways without a plan are over chains.
    """
    long = {curve.trial.probe for curve in curves if curve.trial.env().num_turns > 1}
    sides = [[c for c in curves if (c.trial.probe in long) == turns] for turns in (False, True)]
    return "\n".join(_table(side) for side in sides if side)


def _table(curves: Sequence[Curve]) -> str:
    names = list(dict.fromkeys(curve.trial.probe for curve in curves))
    ways = list(dict.fromkeys(str(curve.trial) for curve in curves))
    heads = [
        f"`{name.removeprefix('probe-').removesuffix('-v0')}`, "
        f"{PROBES[name].random_value:.2f} to {PROBES[name].optimum:.0f}"
        for name in names
    ]
    rows = [["", *heads], ["---"] * (1 + len(names))]
    for way in ways:
        cells = (_cell(curves, way, name) for name in names)
        rows.append([way.replace(" over chains", ""), *cells])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cell(curves: Sequence[Curve], way: str, probe: str) -> str:
    seeds = [curve for curve in curves if (str(curve.trial), curve.trial.probe) == (way, probe)]
    if not seeds:
        return ""
    line = summarise(seeds)
    goal = line["completions to 90 %"]
    return line["value"] + ("" if goal == "-" else f"; {goal}")
