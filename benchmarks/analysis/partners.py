"""A trained team whose last agent keeps its place, while its partners are exchanged.

A gain that disappears with partners from outside the training came from cooperation; a gain that stays is the last
agent's own. The folder `partners/` of a run has an evaluation of each case, with the same tasks and seed:

- `before`: the team before any training.
- `after`: the trained team.
- `untrained`: the last agent is trained, its partners are not.
- `another`: its partners come from another run, such as one with another seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

from llm_decpomdp.agents.saved_team import identify_team
from llm_decpomdp.benchmarks.config.errors import ConfigError, refuse_repeats
from llm_decpomdp.benchmarks.evaluation.baselines import EvalConfig
from llm_decpomdp.benchmarks.evaluation.folder import (
    EvaluationResult,
    estimate_text,
    read_evaluation,
)
from llm_decpomdp.benchmarks.evaluation.request import EvalRequest, resolve_request
from llm_decpomdp.benchmarks.evaluation.run import evaluate
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, bootstrap, share
from llm_decpomdp.benchmarks.evaluation.teams import load_teams, locate_team
from llm_decpomdp.benchmarks.runs.setup import load_config, load_policies
from llm_decpomdp.policy import Team
from llm_decpomdp.utils.storage import RunFolder

FOLDER = "partners"

CALLS = "reward/names_aux"
"""Component of `compose-v0` for calls of a helper, 0 if the entry function calls no defined helper."""

SOLVED = "last/solved"
"""Share of episodes with the maximum reward at their end."""

CASES = {
    "before": "before training",
    "after": "after training, together",
    "untrained": "after training, with an untrained partner",
    "another": "after training, with a partner of another run",
}
"""Titles of the evaluations, in the order of the report."""

DIFFERENCES = {
    "gained by training": ("before", "after"),
    "lost with an untrained partner": ("untrained", "after"),
    "lost with a partner of another run": ("another", "after"),
}
"""Differences of cases, the second less the first, by title."""


def exchange_in_turn(runs: Sequence[Path], **options: Any) -> dict[str, list[EvaluationResult]]:
    """Exchange the partners of one run, or of each of at least three runs for those of the next one.

    Args:
        runs: A run, optionally with a second run or saved team that lends its partners; or at least three runs, of
            which the first lends its partners to the last.
        options: As in `exchange_partners`, with the same errors.

    Returns:
        For each case an evaluation of each run.

    Raises:
        ConfigError: If a run is named twice, or the runs' held-out problems differ.
    """
    refuse_repeats(runs)
    pairs: list[tuple[Path, Path | None]] = [(runs[0], runs[1] if len(runs) > 1 else None)]
    if len(runs) > 2:
        pairs = list(zip(runs, [*runs[1:], runs[0]], strict=True))
    # All runs are checked before the first evaluation.
    settings = [_setting(run) for run, _ in pairs]
    # Of two runs only the first is evaluated, and has settings.
    for run, setting in zip(runs, settings, strict=False):
        if _problems(setting) != _problems(settings[0]):
            raise ConfigError(
                f"{run} has other held-out problems than {runs[0]}: exchange the partners of each alone"
            )
    every = [exchange_partners(run, another, **options) for run, another in pairs]
    return {case: [evaluations[case] for evaluations in every] for case in every[0]}


def exchange_partners(
    run: Path,
    another: Path | None = None,
    *,
    tasks: int | None = None,
    samples: int = 1,
    seed: int = 0,
    at_a_time: int = 16,
) -> dict[str, EvaluationResult]:
    """Evaluate a run's team before and after training and with exchanged partners, except for finished cases.

    Args:
        run: A training run, with its environment and held-out problems.
        another: Another run, or a saved team of the same agents.
        tasks: Number of the first held-out problems; by default all.
        samples: Episodes of each problem.
        seed: Seed of all sampling.
        at_a_time: Episodes in a batch.

    Returns:
        The evaluations by case; without `another` there are three.

    Raises:
        ConfigError: If the team has one agent, or teams do not fit.
        FolderInUse: If another process writes to the folder.
        RunError: If a model cannot be loaded.
    """
    setting = _setting(run)
    agents = setting.env.possible_agents
    if len(agents) < 2:
        raise ConfigError(f"the team in {run} has a single agent, and no partners to exchange")
    paths = {"after": locate_team(run, None)}
    if another is not None:
        paths["another"] = locate_team(another, None)
    players: dict[str, Team] = load_teams(paths, setting)
    for name, team in players.items():
        if set(team) != set(agents):
            raise ConfigError(
                f"{paths[name]} plays {', '.join(team)}, and the environment has {', '.join(agents)}"
            )
    players["untrained"] = load_policies(load_config(run / "config.yaml"), [setting.env])
    # A team before training consists of untrained partners.
    players["before"] = players["untrained"]
    about = {name: identify_team(path) for name, path in paths.items()}
    evaluations = {}
    with RunFolder(run / FOLDER).exclusive_access():
        for case in filter(players.__contains__, CASES):
            # The last agent is always the trained one, except before training.
            keeper = case if case == "before" else "after"
            sources = {agent: keeper if agent == agents[-1] else case for agent in agents}
            evaluations[case] = evaluate(
                setting.env,
                {agent: players[source][agent] for agent, source in sources.items()},
                setting.starts(tasks),
                samples=samples,
                folder=run / FOLDER / case,
                seed=seed,
                at_a_time=at_a_time,
                about={agent: about.get(source, "untrained") for agent, source in sources.items()},
            )
    return evaluations


def _setting(run: Path) -> EvalConfig:
    if not (run / "config.yaml").is_file():
        raise ConfigError(f"{run} is no training run: it has no config.yaml")
    return resolve_request(EvalRequest(team=run))


def _problems(setting: EvalConfig) -> tuple[object, ...]:
    return setting.env_id, setting.env_options, setting.env.metadata["data"]


def solved_share(*evaluations: EvaluationResult) -> Estimate:
    """Estimate the share of solved tasks, or `pass@1` if the environment does not report `solved`."""
    return share(_solved_table(evaluations))


def helper_call_share(*evaluations: EvaluationResult) -> Estimate | None:
    """Estimate the share of tasks in which the last agent's code calls a defined helper; `None` if unknown."""
    if any(CALLS not in evaluation.values for evaluation in evaluations):
        return None
    points = [evaluation.values[CALLS].values() for evaluation in evaluations]
    return share([[fmean(map(bool, values)) for values in of_run] for of_run in points])


def _solved_table(evaluations: Sequence[EvaluationResult]) -> npt.NDArray[np.float64]:
    """Return the share of solved samples, (runs, tasks)."""
    rows = [e.means(SOLVED) if SOLVED in e.values else e.pass_at_k(1) for e in evaluations]
    return np.array([[row[task] for task in sorted(rows[0])] for row in rows])


def table(evaluations: Mapping[str, Sequence[EvaluationResult]]) -> Table:
    """Return the cases and their differences, paired by run and task, for a terminal."""
    grid = Table("", "solved", "calls its helper")
    for case, of_runs in evaluations.items():
        calls = helper_call_share(*of_runs)
        grid.add_row(
            CASES[case],
            estimate_text(solved_share(*of_runs)),
            estimate_text(calls) if calls else "-",
        )
    grid.add_section()
    for words, (less, more) in DIFFERENCES.items():
        if less in evaluations:
            difference = _solved_table(evaluations[more]) - _solved_table(evaluations[less])
            grid.add_row(words, estimate_text(bootstrap(difference).within(-1.0, 1.0)))
    return grid


def read_partners(run: Path) -> Mapping[str, EvaluationResult]:
    """Read the evaluations of a run's folder, by case; empty if partners were not exchanged.

    Raises:
        ConfigError: If one of them is not complete.
    """
    folders = {case: run / FOLDER / case for case in CASES}
    return {case: read_evaluation(f) for case, f in folders.items() if f.is_dir()}
