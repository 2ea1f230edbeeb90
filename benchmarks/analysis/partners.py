"""A trained team whose last agent keeps its place, while its partners are exchanged for others.

A gain that is lost with partners who were not trained along was one of cooperation; one that stays was each
agent's own. The folder `partners/` of a run holds an evaluation of each case, with the same tasks and seed:

- `before`: the team before any training.
- `after`: the trained team.
- `untrained`: the last agent is trained, its partners are not.
- `another`: its partners come from another training run, such as one of another seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.load import load_config
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
from llm_decpomdp.benchmarks.runs import checkpoints as kept_teams
from llm_decpomdp.policy import Team
from llm_decpomdp.utils.storage import RunFolder

FOLDER = "partners"

CALLS = "reward/names_aux"
"""Measure of calls of a helper: points of `compose-v0`, 0 where the entry function calls none that is defined."""

SOLVED = "last/solved"
"""Measure of full marks at the end of an episode."""

CASES = {
    "before": "before training",
    "after": "after training, together",
    "untrained": "after training, with an untrained partner",
    "another": "after training, with a partner of another run",
}
"""Names of the evaluations and their words, in the order in which they are told."""

DIFFERENCES = {
    "gained by training": ("before", "after"),
    "lost with an untrained partner": ("untrained", "after"),
    "lost with a partner of another run": ("another", "after"),
}
"""Differences of cases, the second less the first, and their words."""


def exchange_in_turn(runs: Sequence[Path], **options: Any) -> dict[str, list[EvaluationResult]]:
    """Exchange the partners of one run, or of each of three or more for those of the next.

    Args:
        runs: A run; a run and another one, or a saved team, that lends its partners; or three runs or more, of
            which the first follows the last.
        options: As in `exchange_partners`.

    Returns:
        For each case an evaluation of each run.

    Raises:
        ConfigError: As `exchange_partners`, or if the runs' held-out problems differ.
        RunError: If a model cannot be loaded.
    """
    if len({run.resolve() for run in runs}) < len(runs):
        raise ConfigError(f"a run is named twice: {', '.join(map(str, runs))}")
    pairs: list[tuple[Path, Path | None]] = [(runs[0], runs[1] if len(runs) > 1 else None)]
    if len(runs) > 2:
        pairs = list(zip(runs, [*runs[1:], runs[0]], strict=True))
    # All runs are checked before the first is played.
    settings = [_setting(run) for run, _ in pairs]
    for run, setting in zip(runs, settings, strict=False):
        if _problems(setting) != _problems(settings[0]):
            raise ConfigError(
                f"{run} has other held-out problems than {runs[0]}: they have no table in common"
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
    """Evaluate a run's team before and after training, and with exchanged partners, as far as it was not done yet.

    Args:
        run: A training run, whose environment and held-out problems are played.
        another: Another run, or a saved team of the same agents.
        tasks: Number of the first held-out problems; all if none is given.
        samples: Episodes of each.
        seed: Decides all that is sampled.
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
        raise ConfigError(f"the team in {run} has one agent alone, and no partners to exchange")
    paths = {"after": locate_team(run, None)}
    if another is not None:
        paths["another"] = locate_team(another, None)
    players: dict[str, Team] = load_teams(paths, setting)
    for name, team in players.items():
        if set(team) != set(agents):
            raise ConfigError(
                f"{paths[name]} plays {', '.join(team)}, and the environment has {', '.join(agents)}"
            )
    players["untrained"] = teams.load(load_config(run / "config.yaml"), [setting.env])
    players["before"] = players["untrained"]
    about = {name: kept_teams.identify_team(path) for name, path in paths.items()}
    evaluations = {}
    with RunFolder(run / FOLDER).exclusive_access():
        for case in (case for case in CASES if case in players):
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
    """Return how a run's team is evaluated."""
    if not (run / "config.yaml").is_file():
        raise ConfigError(f"{run} is no training run: it has no config.yaml")
    return resolve_request(EvalRequest(team=run))


def _problems(setting: EvalConfig) -> tuple[object, ...]:
    """Return what decides the held-out problems and how they are played."""
    return setting.env_id, setting.env_options, setting.env.metadata["data"]


def solved_share(*evaluations: EvaluationResult) -> Estimate:
    """Estimate the share of tasks that are solved; of `pass@1` where the environment tells of none."""
    return share(_solved_table(evaluations))


def helper_call_share(*evaluations: EvaluationResult) -> Estimate | None:
    """Estimate the share of tasks in which the last agent's code calls a helper that exists; `None` if unknown."""
    scores = []
    for evaluation in evaluations:
        points = evaluation.values.get(CALLS)
        if points is None:
            return None
        scores.append([fmean(map(bool, values)) for values in points.values()])
    return share(scores)


def _solved_table(evaluations: Sequence[EvaluationResult]) -> npt.NDArray[np.float64]:
    """Tabulate what is solved, (runs, tasks)."""
    rows = [e.means(SOLVED) if SOLVED in e.values else e.pass_at_k(1) for e in evaluations]
    return np.array([[row[task] for task in sorted(rows[0])] for row in rows])


def table(evaluations: Mapping[str, Sequence[EvaluationResult]]) -> Table:
    """Return the cases, each with an evaluation of each run, and their differences for a terminal.

    Differences are paired by run and task.
    """
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
    """Read the evaluations of a run's folder, by case; empty where partners were not exchanged.

    Raises:
        ConfigError: If one of them is not complete.
    """
    folders = {case: run / FOLDER / case for case in CASES}
    return {case: read_evaluation(f) for case, f in folders.items() if f.is_dir()}
