"""Learning curves of algorithms, rollout plans and credit on the probes.

    python -m tools.performance.models.probe_curves

Every agent is a language model of random weights that is trained through the same code as real ones; on the relay
it is a table. All lines of a probe have the same budget of completions of at most `MAX_TOKENS` tokens, however
many updates that makes; the recipe is that of `probe_trials.py`. Critics read with features of the texts' parts
(`studies/hypotheses/features.py`).
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.console import Console
from rich.table import Table

from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.models.tiny import tiny_causal_lm
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts, play_episodes
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.algorithms.training.metrics import count_tokens
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.probes.known import PROBES
from llm_decpomdp.envs.probes.parts import MAX_TOKENS
from llm_decpomdp.policy import Team
from llm_decpomdp.seeding import stream
from llm_decpomdp.utils.storage import write_atomically
from studies.hypotheses.features import HashedParts, Noise
from studies.hypotheses.training import every_start, make_team
from tools.performance.models.probe_report import (
    Curve,
    draw,
    markdown,
    summarise,
    write_points,
)
from tools.performance.models.probe_trials import ProbeTrial, trials

MAX_GRAD_NORM = 0.3

CRITIC_LEARNING_RATE = 1e-2

POINT_EVERY = 5
"""Updates of a plain chain whose completions lie between two points of a curve."""

MOST_POINTS = 20
"""Most points of a curve, beside the first one."""

EVALUATION_EPISODES = 192


def train(trial: ProbeTrial, *, budget: int, seed: int, marks: int | None = None) -> Curve:
    """Train a team of tiny models on a probe, with the completions of `budget` updates of a plain chain.

    Its value is measured at first, and `marks` times afterwards (by default: `POINT_EVERY`, `MOST_POINTS`).
    """
    marks = marks or min(MOST_POINTS, -(-budget // POINT_EVERY))
    begin = time.perf_counter()
    updates = trial.updates(budget)
    env, plain = trial.env(trial.offset), trial.env()
    team = new_team(trial, env, seed)
    features = Noise(seed) if trial.features == "noise" else HashedParts()
    options = _options(trial, env.discount, updates)
    learner = ALGORITHMS[trial.algorithm].make_learner(team, options, seed, features)
    rng, views = stream(seed, "handoff"), learner.critic is not None
    points, completions, tokens = [(0, value(plain, team), 0)], 0, 0
    for update in range(1, updates + 1):
        rollouts = collect_rollouts(
            env,
            team,
            trial.starts(env, stream(seed, "starts", update)),
            trial.rollouts,
            group_size=trial.group_size,
            rng=rng,
            views=views,
        )
        completions += _completions(rollouts)
        tokens += count_tokens(rollouts)
        learner.update(rollouts)
        if update * marks // updates > (update - 1) * marks // updates:
            points.append((update, value(plain, team), completions))
    seconds = time.perf_counter() - begin
    updates_done, values, sampled = zip(*points, strict=True)
    return Curve(trial, seed, updates_done, values, sampled, tokens, seconds)


def new_team(trial: ProbeTrial, env: DecPOMDPEnv, seed: int) -> Team:
    """Return the policies of a trial, each with first weights of its own; tables say what can be handed on."""
    letters = PROBES[trial.probe].letters
    if trial.recipe.tabular:
        return make_team(env, letters[: trial.kwargs["num_secrets"]], seed, spread=1.0)
    return {
        agent: tiny_causal_lm(
            letters,
            Sampling(max_new_tokens=MAX_TOKENS),
            seed=int(stream(seed, "policy", agent).integers(2**32)),
        )
        for agent in env.possible_agents
    }


def _completions(rollouts: Sequence[Rollout]) -> int:
    groups = (group for rollout in rollouts for group in rollout.groups)
    return sum(len(samples) for group in groups for samples in group.completions.values())


def _options(trial: ProbeTrial, discount: float, updates: int) -> LearnerOptions:
    critic: dict[str, Any] = {"critic": trial.critic} if trial.critic else {}
    completed = ALGORITHMS[trial.algorithm].complete_options(LearnerOptions(**critic))
    if completed.has_critic:
        critic["critic_learning_rate"] = CRITIC_LEARNING_RATE
    return LearnerOptions(
        learning_rate=trial.learning_rate,
        max_grad_norm=MAX_GRAD_NORM,
        discount=discount,
        lr_schedule="linear",
        total_updates=updates,
        joint_aggregation=trial.aggregation,
        **critic,
    )


def value(env: DecPOMDPEnv, team: Team) -> float:
    """Return the mean sum of rewards over episodes that the team samples, as many of each task."""
    starts = every_start(env)
    each = EVALUATION_EPISODES // len(starts)
    if env.num_turns == 1:  # aligned joint samples are as many episodes, and sampled faster
        rollouts = collect_rollouts(
            env, team, starts, group_size=each, rng=np.random.default_rng(0)
        )
        return float(np.mean([rollout.groups[0].rewards for rollout in rollouts]))
    rollouts = play_episodes(env, team, starts * each)
    sums = [sum(group.rewards[0] for group in rollout.groups) for rollout in rollouts]
    return float(np.mean(sums))


def main(
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each line of the table.")] = 5,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Updates of a plain chain whose completions each run has; by default as probe_trials.py says.",
        ),
    ] = None,
    probe: Annotated[
        str | None, typer.Option(help="Only the probes with this in their id.")
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="Only the lines with this in their name.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    folder: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Where curves.csv, curves.png and table.md go; runs that are in there are not done again.",
        ),
    ] = Path("runs/probes"),
) -> None:
    """Train every algorithm on every probe, and print what it has learned."""
    selection = [
        trial
        for trial in trials()
        if (probe or "") in trial.probe and (algorithm or "") in str(trial)
    ]
    if not selection:
        raise SystemExit(
            f"error: no line has {probe!r} in its probe and {algorithm!r} in its name; probes: {', '.join(PROBES)}"
        )
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    curves: list[Curve] = []
    lines: list[dict[str, str]] = []
    works = [
        (trial, budget or trial.recipe.budget, seed) for trial in selection for seed in range(seeds)
    ]
    with ExitStack() as stack:
        pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) if jobs > 1 else None
        each = stack.enter_context(pool).map if pool else map
        results = each(partial(_single_agent, folder / "runs"), *zip(*works, strict=True))
        for _ in selection:
            runs = list(islice(results, seeds))
            curves += runs
            lines.append(summarise(runs))
            print(*lines[-1].values(), sep="  ", file=sys.stderr, flush=True)
            write_points(curves, folder / "curves.csv")
    table = Table(*lines[0])
    for line in lines:
        table.add_row(*line.values())
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    draw(curves, folder / "curves.png")
    write_atomically(folder / "table.md", markdown(curves))


def _single_agent(folder: Path, trial: ProbeTrial, budget: int, seed: int) -> Curve:
    """Return the curve of a run: the one in the folder, or else a new one, which is put there."""
    name = re.sub(r"[^a-z0-9.]+", "-", f"{trial.probe} {trial}")
    path = folder / f"{name}-budget-{budget}-seed-{seed}.json"
    if path.exists():
        return Curve(trial, seed, **json.loads(path.read_text()))
    torch.set_num_threads(1)  # the models are too small to share
    curve = train(trial, budget=budget, seed=seed)
    measured = {key: value for key, value in vars(curve).items() if key not in ("trial", "seed")}
    write_atomically(path, json.dumps(measured))
    return curve


if __name__ == "__main__":
    typer.run(main)
