"""Learning curves of algorithms, rollout plans and credit on the probes.

    python -m llm_decpomdp.benchmarks.performance.models.probe_curves

Every agent is a language model of random weights that is trained through the same code as real ones. The
recipe is one for all, but `maremax` and trees go in shorter steps: what differs otherwise between two lines of
the table is what they say. Lines differ in what they sample: compare them by the completions that they took.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.models.tiny import tiny_causal_lm
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.plans import play_episodes, roll_out
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks.performance.models.probe_trials import Trial, trials
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.probes.known import PROBES
from llm_decpomdp.envs.probes.parts import MAX_TOKENS
from llm_decpomdp.policy import Team
from llm_decpomdp.seeding import stream
from llm_decpomdp.utils.storage import write_csv

MAX_GRAD_NORM = 0.3

EVALUATE_EVERY = 5
"""Updates between two points of a curve."""

EVALUATION_EPISODES = 192

ENOUGH = 0.9
"""Share of the optimum that counts as reached."""


@dataclass(frozen=True)
class Curve:
    """Value of a team, measured again and again while it learns."""

    trial: Trial
    seed: int
    updates: tuple[int, ...]
    values: tuple[float, ...]
    """Mean sum of the rewards of an episode, without discount and offset."""
    completions: tuple[int, ...]
    """Completions of all agents that were sampled for training up to then."""
    seconds: float

    @property
    def reached(self) -> float:
        """Completions after which the team had 90 % of the optimum; infinite if it never had."""
        goal = ENOUGH * PROBES[self.trial.probe].optimum
        points = zip(self.completions, self.values, strict=True)
        return next((completions for completions, value in points if value >= goal), math.inf)


def train(trial: Trial, *, updates: int, seed: int) -> Curve:
    """Train a team of tiny models on a probe."""
    begin = time.perf_counter()
    env, plain = trial.env(trial.offset), trial.env(0.0)
    team = {
        agent: tiny_causal_lm(
            PROBES[trial.probe].letters,
            Sampling(max_new_tokens=MAX_TOKENS),
            seed=int(stream(seed, "policy", agent).integers(2**32)),
        )
        for agent in env.possible_agents
    }
    learner = Learner(team, ALGORITHMS[trial.algorithm], _options(trial, env.discount, updates))
    rng = stream(seed, "handoff")
    points, completions = [(0, value(plain, team), 0)], 0
    for update in range(1, updates + 1):
        rollouts = roll_out(
            env, team, _starts(env), trial.rollouts, group_size=trial.group_size, rng=rng
        )
        completions += sum(
            len(samples)
            for rollout in rollouts
            for group in rollout.groups
            for samples in group.completions.values()
        )
        learner.update(rollouts)
        if update % EVALUATE_EVERY == 0 or update == updates:
            points.append((update, value(plain, team), completions))
    seconds = time.perf_counter() - begin
    updates_done, values, sampled = zip(*points, strict=True)
    return Curve(trial, seed, updates_done, values, sampled, seconds)


def _options(trial: Trial, discount: float, updates: int) -> LearnerOptions:
    return LearnerOptions(
        learning_rate=trial.learning_rate,
        max_grad_norm=MAX_GRAD_NORM,
        discount=discount,
        lr_schedule="linear",
        total_updates=updates,
        joint_aggregation=trial.aggregation,
    )


def _starts(env: DecPOMDPEnv) -> list[Start]:
    return [Start(task_id=task.task_id) for task in env.tasks.tasks]


def value(env: DecPOMDPEnv, team: Team) -> float:
    """Return the mean sum of rewards over episodes that the team samples, as many of each task."""
    starts = _starts(env)
    episodes = starts * (EVALUATION_EPISODES // len(starts))
    rollouts = play_episodes(env, team, episodes)
    sums = [sum(group.rewards[0] for group in rollout.groups) for rollout in rollouts]
    return float(np.mean(sums))


def summarise(curves: Sequence[Curve]) -> dict[str, str]:
    """Return a line of the table, by heading: the seeds of a trial."""
    trial, probe = curves[0].trial, PROBES[curves[0].trial.probe]
    finals = [curve.values[-1] for curve in curves]
    goals = sorted(curve.reached for curve in curves)
    median = goals[len(goals) // 2]
    return {
        "probe": trial.probe,
        "algorithm": str(trial),
        "final": f"{np.mean(finals):.2f}",
        "seeds from .. to": f"{min(finals):.2f} .. {max(finals):.2f}",
        "completions to 90 %": f"{median:,.0f}" if median < math.inf else "-",
        "seeds there": f"{sum(goal < math.inf for goal in goals)}/{len(goals)}",
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
            axes.plot(seeds[0].updates, values.mean(0), label=str(trial))
            axes.fill_between(seeds[0].updates, values.min(0), values.max(0), alpha=0.15)
        axes.set_title(name)
        axes.set_xlabel("update")
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=120)


def main(
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each line of the table.")] = 3,
    updates: Annotated[int, typer.Option(min=1, help="Updates of each run.")] = 60,
    probe: Annotated[
        str | None, typer.Option(help="Only the probes with this in their id.")
    ] = None,
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where curves.csv and curves.png go.")
    ] = Path("runs/probes"),
) -> None:
    """Train every algorithm on every probe, and print what it has learned."""
    torch.set_num_threads(1)  # the models are too small to share
    selection = [trial for trial in trials() if probe is None or probe in trial.probe]
    if not selection:
        raise SystemExit(f"error: no probe has {probe!r} in its id; ids: {', '.join(PROBES)}")
    folder.mkdir(parents=True, exist_ok=True)
    curves: list[Curve] = []
    lines: list[dict[str, str]] = []
    for trial in selection:
        runs = [train(trial, updates=updates * trial.pace, seed=seed) for seed in range(seeds)]
        curves += runs
        lines.append(summarise(runs))
        print(*lines[-1].values(), sep="  ", file=sys.stderr, flush=True)
        write_points(curves, folder / "curves.csv")
    table = Table(*lines[0])
    for line in lines:
        table.add_row(*line.values())
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    draw(curves, folder / "curves.png")


if __name__ == "__main__":
    typer.run(main)
