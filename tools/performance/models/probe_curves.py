"""Learning curves of algorithms, rollout plans and credit on the probes.

    python -m tools.performance.models.probe_curves

Every agent is a tiny language model with random weights; on the relay it is a table. All trials of a probe have
the same number of completions, and so different numbers of updates. `probe_trials.py` has the recipes. Critics use
features of the parts of texts (`studies/hypotheses/training.py`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from matplotlib.figure import Figure

from llm_decpomdp.benchmarks.evaluation.experiments import format_estimate
from llm_decpomdp.benchmarks.evaluation.statistics import bootstrap
from llm_decpomdp.envs.probes.known import PROBES
from llm_decpomdp.utils.storage import write_atomically, write_csv
from tools.performance.models.probe_trials import Curve, ProbeTrial, train, trials


def main(
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each trial.")] = 5,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Completions of each run, in updates of a plain chain. The default depends on the probe.",
        ),
    ] = None,
    probe: Annotated[str | None, typer.Option(help="Part of the ids of probes to run.")] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="Part of the names of trials to run.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    folder: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Folder of curves.csv, curves.png and table.md. Runs that it has are not repeated.",
        ),
    ] = Path("runs/probes"),
) -> None:
    """Train every algorithm on every probe, and print the results."""
    selection = [
        trial
        for trial in trials()
        if (probe or "") in trial.probe and (algorithm or "") in str(trial)
    ]
    if not selection:
        raise SystemExit(
            f"error: no trial has probe {probe!r} and name {algorithm!r}; probes: {', '.join(PROBES)}"
        )
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    curves: list[Curve] = []
    works = [
        (trial, budget or trial.recipe.budget, seed) for trial in selection for seed in range(seeds)
    ]
    with ExitStack() as stack:
        pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) if jobs > 1 else None
        each = stack.enter_context(pool).map if pool else map
        results = each(partial(_stored_curve, folder / "runs"), *zip(*works, strict=True))
        for trial in selection:
            runs = list(islice(results, seeds))
            curves += runs
            line = summarise(runs)
            if trial is selection[0]:
                print(*line, sep="  ")
            print(*line.values(), sep="  ", flush=True)
            write_points(curves, folder / "curves.csv")
    draw(curves, folder / "curves.png")
    write_atomically(folder / "table.md", markdown(curves))


def _stored_curve(folder: Path, trial: ProbeTrial, budget: int, seed: int) -> Curve:
    """Return the curve of a run from the folder, or train and store it."""
    name = re.sub(r"[^a-z0-9.]+", "-", f"{trial.probe} {trial}")
    path = folder / f"{name}-budget-{budget}-seed-{seed}.json"
    # Hundreds of runs take hours: a stopped command continues.
    if path.exists():
        return Curve(trial, seed, **json.loads(path.read_text()))
    torch.set_num_threads(1)  # the models are too small for several threads
    curve = train(trial, budget=budget, seed=seed)
    measured = {key: value for key, value in vars(curve).items() if key not in ("trial", "seed")}
    write_atomically(path, json.dumps(measured))
    return curve


def summarise(curves: Sequence[Curve]) -> dict[str, str]:
    """Return a line of the table by heading, for the seeds of a trial."""
    trial, probe = curves[0].trial, PROBES[curves[0].trial.probe]
    finals = [curve.values[-1] for curve in curves]
    goals = sorted(curve.reach for curve in curves)
    median = goals[len(goals) // 2]
    return {
        "probe": trial.probe,
        "algorithm": str(trial),
        "value": format_estimate(bootstrap(finals)),
        "completions to 90 %": f"{median:,.0f}" if median < math.inf else "-",
        "seeds at 90 %": f"{sum(goal < math.inf for goal in goals)}/{len(goals)}",
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
    """Draw a panel for each probe: the mean and the range of the seeds, and the values of chance and optimum."""
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
    """Return two tables in Markdown, for the probes with one turn and for the others. A row is a trial.

    A cell has the mean final value with its 95 % interval. If most seeds had 90 % of the optimum, it has the
    median of the completions before that, too. Trials without a plan have chains.
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


if __name__ == "__main__":
    typer.run(main)
